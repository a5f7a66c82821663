//! Prints the JSON Schema of the scenario format.

fn main() {
    print!("{}", paceline_scenario::schema_json());
}
