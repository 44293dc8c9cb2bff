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
        return format!("{margin}\"\"\"{}", filled(&(doc + "\"\"\""), indent).trim_start());
    }
    let paragraphs: Vec<_> = doc.split("\n\n").map(|one| filled(one, indent)).collect();
    format!("{margin}\"\"\"{}\n{margin}\"\"\"", paragraphs.join("\n\n").trim_start())
}

/// A table of TOML with doc comments by name, in the lines of docstrings; nothing without names.
pub(crate) fn table(name: &str, docs: &[(&str, &str)]) -> String {
    if docs.is_empty() {
        return String::new();
    }
    let rows = docs.iter().map(|(name, doc)| {
        let doc = docstring(doc, 4);
        let lines: Vec<_> = doc.trim().lines().map(str::trim).collect();
        format!("{name} = {}\n", lines.join("\n"))
    });
    format!("\n[{name}]\n{}", rows.collect::<String>())
}

/// Fills lines with words; the first leaves room for the quotes that open a docstring.
fn filled(words: &str, indent: usize) -> String {
    let mut lines = vec![" ".repeat(indent)];
    let mut room = WIDTH - indent - 3;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if room < length {
            lines.push(" ".repeat(indent));
            room = WIDTH - indent;
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
