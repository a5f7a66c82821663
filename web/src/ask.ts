/** Asks the server, or gives it an order. */
export const ask = async <Answer>(path: string, order?: object): Promise<Answer> => {
  const options = order && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(order) };
  const answer = await fetch(path, options);
  const value: unknown = await answer.json();
  if (!answer.ok) throw new Error((value as { error: string }).error);
  return value as Answer;
};
