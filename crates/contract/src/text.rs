//! Lines of Python as ruff formats them.

use serde_json::Value;

const WIDTH: usize = 120;

/// A string of a schema; empty if it is missing.
pub(crate) fn plain<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema[key].as_str().unwrap_or_default()
}

/// A constant in Python.
pub(crate) fn constant(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
        Value::Array(_) => "()".to_owned(),
        Value::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
        other => other.to_string(),
    }
}

/// `NAME = Literal[…]`.
pub(crate) fn literal(name: &str, values: &[String]) -> String {
    let line = format!("{name} = Literal[{}]", values.join(", "));
    if line.chars().count() <= WIDTH {
        return line;
    }
    format!("{name} = Literal[\n    {},\n]", values.join(",\n    "))
}

/// `NAME = A | B`.
pub(crate) fn union(name: &str, classes: &[String]) -> String {
    let line = format!("{name} = {}", classes.join(" | "));
    if line.len() <= WIDTH { line } else { format!("{name} = (\n    {}\n)", classes.join("\n    | ")) }
}

/// A docstring; empty without a text.
pub(crate) fn docstring(doc: &str, indent: usize) -> String {
    let doc = python(doc);
    let margin = " ".repeat(indent);
    if !doc.contains("\n\n") {
        return format!("{margin}\"\"\"{}", filled(&(doc + "\"\"\""), indent, indent).trim_start());
    }
    let paragraphs: Vec<_> = doc.split("\n\n").map(|one| filled(one, indent, indent)).collect();
    format!("{margin}\"\"\"{}\n{margin}\"\"\"", paragraphs.join("\n\n").trim_start())
}

/// A docstring with a list.
pub(crate) fn list(doc: &str, items: &[String]) -> String {
    let items: Vec<_> = items.iter().map(|item| filled(&python(item), 0, 4)).collect();
    format!("\"\"\"{}\n\n{}\n\"\"\"", filled(&python(doc), 0, 0), items.join("\n"))
}

/// Fills lines with words; the first leaves room for the quotes that open a docstring.
fn filled(words: &str, indent: usize, hanging: usize) -> String {
    let mut lines = vec![" ".repeat(indent)];
    let mut room = WIDTH - indent - 3;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if room < length {
            lines.push(" ".repeat(hanging));
            room = WIDTH - hanging;
        }
        let line = lines.last_mut().expect("there is a first line");
        *line += word;
        line.push(' ');
        room = room.saturating_sub(length + 1);
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// A doc comment as a docstring has it: `null` is None, and code is in two backticks.
fn python(doc: &str) -> String {
    let doc = doc.replace("`null`", "None").replace("[`", "`").replace("`]", "`");
    doc.replace('`', "``").replace('\\', "\\\\")
}
