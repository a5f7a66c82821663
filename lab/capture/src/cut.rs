//! JSON texts that end early, as a process that is killed leaves them.

use serde_json::Value;

/// The beginning of a JSON text up to the last complete element of an array with this key, as a
/// text that is complete; nothing if no element is.
pub fn up_to_last(text: &[u8], key: &str) -> Option<Value> {
    // The brackets that are open, and whether they are of such an array.
    let mut open: Vec<(u8, bool)> = Vec::new();
    let (mut word, mut is_key, mut last) = (0..0, false, None);
    let mut at = 0;
    while let Some(octet) = text.get(at) {
        match octet {
            b'"' => {
                let start = at + 1;
                at = start;
                while text.get(at).is_some_and(|octet| *octet != b'"') {
                    at += if text.get(at) == Some(&b'\\') { 2 } else { 1 };
                }
                word = start..at.min(text.len());
            }
            b':' => is_key = text.get(word.clone()) == Some(key.as_bytes()),
            b',' => is_key = false,
            b'[' | b'{' => {
                let closes = if *octet == b'[' { b']' } else { b'}' };
                open.push((closes, *octet == b'[' && is_key));
                is_key = false;
            }
            b']' | b'}' => {
                if open.pop().is_none_or(|(closes, _)| closes != *octet) {
                    break;
                }
                if open.last().is_some_and(|(_, wanted)| *wanted) {
                    last = Some((at + 1, open.clone()));
                }
            }
            _ => {}
        }
        at += 1;
    }
    let (end, open) = last?;
    let mut whole = text.get(..end)?.to_vec();
    whole.extend(open.iter().rev().map(|(closes, _)| *closes));
    serde_json::from_slice(&whole).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_up_to_its_last_complete_element() {
        let text =
            br#"{"a": [{"x": [1]}], "traces": [{"events": [{"n": "]}\"", "f": [{"b": 1}]}, [2, {"#;
        let read = |length: usize| {
            let value = up_to_last(&text[..length], "events")?;
            value["traces"][0]["events"].as_array().map(Vec::len)
        };
        assert_eq!(read(text.len()), Some(1));
        // The first event itself is cut.
        let first = text.len() - br#", [2, {"#.len();
        assert_eq!((read(first), read(first - 1)), (Some(1), None));
        for length in 0..text.len() {
            read(length);
        }
        assert_eq!(up_to_last(b"}]", "events"), None);
    }
}
