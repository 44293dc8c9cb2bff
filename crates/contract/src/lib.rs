//! Python structs from Rust types, so that each document of the native module is described in one place. Types derive
//! `JsonSchema`; a doc comment becomes a docstring. Only tests use this crate: they compare the modules that are in the
//! tree with what the types give, and `make contract` writes the modules.
//!
//! Attributes `schemars(extend(…))` add the rest: `default` is the default in Python (Rust reads only complete documents),
//! `class` is the pattern for the classes of a tagged enum (`{}Engine` gives `NullEngine`), and `subset` is the name of a
//! `Literal` with those of an enum's values that a field takes.

mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use self::text::{literal, plain, union};

/// Numbers that several fields share.
const NUMBERS: [(&str, &str); 5] = [
    ("U16", "Annotated[int, Meta(ge=0, lt=2**16)]"),
    ("U32", "Annotated[int, Meta(ge=0, lt=2**32)]"),
    ("U64", "int\n\"\"\"0 to 2^64 - 1. msgspec cannot check bounds above 2^63; Rust checks this one.\"\"\""),
    ("Count", "Annotated[int, Meta(ge=1, lt=2**32)]"),
    ("Percentage", "Annotated[int, Meta(ge=0, le=100)]"),
];

/// A Python module of structs.
pub struct Module {
    doc: &'static str,
    bounds: bool,
    schemas: SchemaGenerator,
    roots: Vec<String>,
    subsets: BTreeMap<&'static str, Vec<Subset>>,
    supplements: BTreeMap<&'static str, String>,
}

/// A `Literal` of some of the values of an enum.
struct Subset {
    name: &'static str,
    /// In Python: values, and names of earlier subsets in place of theirs.
    values: Vec<String>,
    doc: String,
}

impl Module {
    /// A module with a docstring. With bounds Python checks the ranges of integers, as it does for documents that it
    /// writes; without, integers are `int`.
    pub fn new(doc: &'static str, bounds: bool) -> Self {
        // Only documents that are written list all their fields, in their order, as required.
        let schemas = SchemaSettings::draft2020_12().for_serialize().into_generator();
        Self { doc, bounds, schemas, roots: Vec::new(), subsets: BTreeMap::new(), supplements: BTreeMap::new() }
    }

    /// Adds a type, and those that it uses.
    #[must_use]
    pub fn with<T: JsonSchema>(mut self) -> Self {
        self.schemas.subschema_for::<T>();
        self.roots.push(T::schema_name().into_owned());
        self
    }

    /// Adds a `Literal` of some of the values of an enum before the enum, whose own has its name in place of them.
    #[must_use]
    pub fn subset(mut self, of: &'static str, name: &'static str, values: &[&str], doc: &str) -> Self {
        let earlier = self.subsets.entry(of).or_default();
        let values = with_subsets(values.iter().map(|value| text::constant(&Value::from(*value))).collect(), earlier);
        earlier.push(Subset { name, values, doc: text::docstring(doc, 0) });
        self
    }

    /// Adds lines of Python after a type.
    #[must_use]
    pub fn supplement(mut self, after: &'static str, lines: &str) -> Self {
        self.supplements.entry(after).or_default().push_str(lines);
        self
    }

    /// Compares a file below the workspace with this module; writes the file if `IOCURVE_UPDATE_CONTRACT` is set.
    pub fn compare(&self, path: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        let python = self.python();
        if env::var_os("IOCURVE_UPDATE_CONTRACT").is_some() {
            fs::write(&path, python).expect("the module can be written");
        } else if fs::read_to_string(&path).expect("the module can be read") != python {
            panic!("{} is not what the types give; `make contract` writes it", path.display());
        }
    }

    fn python(&self) -> String {
        let definitions = self.schemas.definitions();
        let mut writer =
            Writer { definitions, module: self, done: BTreeSet::new(), body: String::new(), numbers: BTreeSet::new() };
        for root in &self.roots {
            writer.define(root);
        }
        let shared = NUMBERS.iter().filter(|(name, _)| writer.numbers.contains(name));
        let shared: Vec<_> = shared.map(|(name, python)| format!("{name} = {python}\n")).collect();
        let body = shared.concat() + &writer.body;
        let body = body.trim();
        let gap = if body.starts_with("class") { "\n\n" } else { "\n" };
        format!("{}\n\n{}{gap}{body}\n", text::docstring(self.doc, 0), imports(body))
    }
}

fn imports(body: &str) -> String {
    let used = |names: &[&str]| {
        let is_used = |name: &&&str| body.contains(&format!("{name}[")) || body.contains(&format!("{name}("));
        names.iter().filter(is_used).copied().collect::<Vec<_>>().join(", ")
    };
    let line = |module: &str, names: String| match names.as_str() {
        "" => String::new(),
        names => format!("from {module} import {names}\n"),
    };
    let typing = line("typing", used(&["Annotated", "Literal", "get_args"]));
    let msgspec = line("\nmsgspec", used(&["Meta"])).replace("from \n", "\nfrom ");
    let structs = if body.contains("(TaggedStruct") { "Struct, TaggedStruct" } else { "Struct" };
    format!(
        "from __future__ import annotations\n\n{typing}{msgspec}\nfrom iocurve.foundation.structs import {structs}\n"
    )
}

struct Writer<'a> {
    definitions: &'a Map<String, Value>,
    module: &'a Module,
    done: BTreeSet<String>,
    body: String,
    numbers: BTreeSet<&'static str>,
}

impl Writer<'_> {
    /// Writes a type after those that it uses.
    fn define(&mut self, name: &str) {
        if !self.done.insert(name.to_owned()) {
            return;
        }
        let schema = &self.definitions[name];
        for used in references(schema) {
            self.define(&used);
        }
        match schema["oneOf"].as_array() {
            None => self.class(name, None, schema),
            Some(variants) if variants[0]["properties"].is_object() => self.tagged(name, schema, variants),
            Some(values) => self.values(name, schema, values),
        }
        self.body += self.module.supplements.get(name).map_or("", String::as_str);
    }

    fn class(&mut self, name: &str, tag: Option<&str>, schema: &Value) {
        let base = tag.map_or("Struct".to_owned(), |tag| format!("TaggedStruct, tag=\"{tag}\""));
        let doc = text::docstring(plain(schema, "description"), 4);
        let fields: String = fields(schema).into_iter().map(|(name, field)| self.field(name, field)).collect();
        let fields = if fields.is_empty() { fields } else { format!("\n{fields}") };
        self.body = format!("{}\n\n\nclass {name}({base}):\n{doc}\n{fields}\n\n", self.body.trim_end());
    }

    fn field(&mut self, name: &str, field: &Value) -> String {
        let kind = self.annotation(field);
        let default = field.get("default").map(|default| format!(" = {}", self.value(default, field)));
        let doc = text::docstring(plain(field, "description"), 4);
        format!("    {name}: {kind}{}\n{doc}\n", default.unwrap_or_default())
    }

    fn tagged(&mut self, name: &str, schema: &Value, variants: &[Value]) {
        let mut classes = Vec::new();
        for variant in variants {
            let class = class_name(schema, variant);
            self.class(&class, Some(tag(variant)), variant);
            classes.push(class);
        }
        let doc = text::docstring(plain(schema, "description"), 0);
        self.body += &[&union(name, &classes), "\n", &doc, "\n"].concat();
    }

    fn values(&mut self, name: &str, schema: &Value, values: &[Value]) {
        let subsets = self.module.subsets.get(name).map_or(&[][..], Vec::as_slice);
        for one in subsets {
            self.body += &[&literal(one.name, &one.values), "\n", &one.doc, "\n"].concat();
        }
        let names = with_subsets(values.iter().map(|value| text::constant(&value["const"])).collect(), subsets);
        let each = values.iter().map(|value| format!("{}: {}", plain(value, "const"), plain(value, "description")));
        let doc = text::list(plain(schema, "description"), &each.collect::<Vec<_>>());
        self.body += &[&literal(name, &names), "\n", &doc, "\n"].concat();
    }

    /// The type of a field, with its bounds.
    fn annotation(&mut self, schema: &Value) -> String {
        if let Some(name) = schema["subset"].as_str().or_else(|| reference(schema)) {
            return name.to_owned();
        }
        if let Some(values) = schema["enum"].as_array().cloned().or_else(|| Some(vec![schema.get("const")?.clone()])) {
            let values: Vec<_> = values.iter().map(text::constant).collect();
            return format!("Literal[{}]", values.join(", "));
        }
        if let Some(of) = schema["anyOf"].as_array() {
            return format!("{} | None", self.annotation(&of[0]));
        }
        if let Some(kinds) = schema["type"].as_array() {
            let mut one = schema.clone();
            one["type"] = kinds[0].clone();
            return format!("{} | None", self.annotation(&one));
        }
        match plain(schema, "type") {
            "boolean" => "bool".to_owned(),
            "integer" => self.integer(schema),
            "object" => format!("dict[str, {}]", self.annotation(&schema["additionalProperties"])),
            "number" => annotated("float", &bounds(schema)),
            "string" => annotated("str", &bounds(schema)),
            "array" => annotated(&format!("tuple[{}, ...]", self.annotation(&schema["items"])), &bounds(schema)),
            _ => panic!("no Python type for {schema}"),
        }
    }

    fn integer(&mut self, schema: &Value) -> String {
        let bound = |key| schema[key].as_u64();
        let shared = match (plain(schema, "format"), bound("minimum"), bound("maximum")) {
            _ if !self.module.bounds => return "int".to_owned(),
            ("uint16", Some(0), _) => "U16",
            ("uint32", Some(0), None) => "U32",
            ("uint32", Some(1), None) => "Count",
            ("uint32", Some(0), Some(100)) => "Percentage",
            ("uint64", ..) => "U64",
            ("int64", ..) => return "int".to_owned(),
            _ => return annotated("int", &bounds(schema)),
        };
        self.numbers.insert(shared);
        shared.to_owned()
    }

    /// A default in Python: of a class those of its fields that are there.
    fn value(&self, value: &Value, schema: &Value) -> String {
        let Some((name, fields)) = reference(schema).zip(value.as_object()) else { return text::constant(value) };
        let definition = &self.definitions[name];
        let variants = definition["oneOf"].as_array().into_iter().flatten();
        let variant = variants.into_iter().find(|variant| tag(variant) == plain(value, "kind"));
        let class = variant.map_or(name.to_owned(), |variant| class_name(definition, variant));
        let given = fields.iter().filter(|(key, _)| variant.is_none() || *key != "kind");
        let given: Vec<_> = given.map(|(key, value)| format!("{key}={}", text::constant(value))).collect();
        format!("{class}({})", given.join(", "))
    }
}

/// Values of an enum in Python, with the names of subsets in place of theirs.
fn with_subsets(mut values: Vec<String>, subsets: &[Subset]) -> Vec<String> {
    for one in subsets {
        if let Some(at) = values.windows(one.values.len()).position(|some| some == one.values) {
            values.splice(at..at + one.values.len(), [one.name.to_owned()]);
        }
    }
    values
}

fn annotated(kind: &str, bounds: &str) -> String {
    if bounds.is_empty() { kind.to_owned() } else { format!("Annotated[{kind}, Meta({bounds})]") }
}

fn bounds(schema: &Value) -> String {
    let names = [
        ("exclusiveMinimum", "gt"),
        ("minimum", "ge"),
        ("exclusiveMaximum", "lt"),
        ("maximum", "le"),
        ("minItems", "min_length"),
        ("pattern", "pattern"),
    ];
    let given = names.iter().filter_map(|(key, name)| schema.get(key).map(|bound| (name, bound)));
    let given: Vec<_> = given.map(|(name, bound)| format!("{name}={}", text::constant(bound))).collect();
    given.join(", ")
}

/// The fields of an object in the order of the type, without the tag.
fn fields(schema: &Value) -> Vec<(&str, &Value)> {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let fields = names.map(|name| (name, &schema["properties"][name]));
    fields.filter(|(name, field)| *name != "kind" || field.get("const").is_none()).collect()
}

/// The types that a type uses, in the order of its fields.
fn references(schema: &Value) -> Vec<String> {
    let of_fields = fields(schema).into_iter().flat_map(|(_, field)| references(field));
    let parts = ["oneOf", "anyOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
    let items = ["items", "additionalProperties"].into_iter().filter_map(|key| schema.get(key));
    let own = reference(schema).map(str::to_owned);
    own.into_iter().chain(of_fields).chain(parts.chain(items).flat_map(references)).collect()
}

fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str().and_then(|path| path.rsplit('/').next())
}

fn tag(variant: &Value) -> &str {
    plain(&variant["properties"]["kind"], "const")
}

fn class_name(of: &Value, variant: &Value) -> String {
    if let Some(title) = variant["title"].as_str() {
        return title.to_owned();
    }
    let words = tag(variant).split('_');
    let name: String = words.map(|word| word[..1].to_uppercase() + &word[1..]).collect();
    of["class"].as_str().unwrap_or("{}").replace("{}", &name)
}
