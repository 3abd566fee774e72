//! Trees made up for tests, and many ways to write each of them.

use proptest::prelude::*;

use crate::compare::structured::Format;

/// A generator whose throws are the same for the same seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(super) fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % count.max(1)
    }

    fn pick<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.below(choices.len())]
    }
}

#[derive(Clone, Debug)]
pub(super) enum Model {
    Null,
    Bool(bool),
    Number(i64),
    Text(String),
    List(Vec<Model>),
    Map(Vec<(String, Model)>),
}

/// Keys and indexes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path(Vec<Result<String, usize>>);

impl Path {
    pub(super) fn pointer(&self) -> String {
        let tokens = self.0.iter().map(|token| match token {
            Ok(key) => format!("/{key}"),
            Err(index) => format!("/{index}"),
        });
        tokens.collect()
    }
}

/// Trees that `format` can hold.
pub(super) fn of(format: Format) -> BoxedStrategy<Model> {
    let key = "[a-e]{1,2}";
    let line = "[a-z][a-z0-9/.]{0,6}( [a-z0-9]{1,4}){0,2}";
    match format {
        Format::Env | Format::KeyValue => map(key, line.prop_map(Model::Text).boxed()),
        Format::Ini => {
            let section = map(key, line.prop_map(Model::Text).boxed());
            map("[f-k]{1,2}", section)
        }
        Format::Yaml | Format::Json | Format::Json5 | Format::Toml => {
            let has_null = format != Format::Toml;
            let text = prop_oneof![
                "[ -~éü\n]{0,10}",
                line,
                "(no|0644|null|1e3|~|- a|a: b|#x|'|\")"
            ];
            let leaf = prop_oneof![
                1 => Just(if has_null { Model::Null } else { Model::Bool(true) }),
                1 => any::<bool>().prop_map(Model::Bool),
                2 => any::<i64>().prop_map(Model::Number),
                4 => text.prop_map(Model::Text),
            ];
            let tree = leaf.prop_recursive(3, 24, 4, move |inner| {
                prop_oneof![
                    proptest::collection::vec(inner.clone(), 0..4).prop_map(Model::List),
                    map(key, inner.boxed()),
                ]
            });
            map(key, tree.boxed())
        }
    }
}

fn map(key: &'static str, value: BoxedStrategy<Model>) -> BoxedStrategy<Model> {
    let entries = proptest::collection::btree_map(key, value, 1..5);
    entries
        .prop_map(|map| Model::Map(map.into_iter().collect()))
        .boxed()
}

impl Model {
    /// Where scalars stand.
    pub(super) fn leaves(&self) -> Vec<Path> {
        self.paths(false)
    }

    /// Where the values of keys stand.
    pub(super) fn keys(&self) -> Vec<Path> {
        self.paths(true)
    }

    fn paths(&self, keys: bool) -> Vec<Path> {
        let mut found = Vec::new();
        let mut below = |token: Result<String, usize>, value: &Model| {
            let is_leaf = !matches!(value, Model::List(_) | Model::Map(_));
            if if keys { token.is_ok() } else { is_leaf } {
                found.push(Path(vec![token.clone()]));
            }
            for path in value.paths(keys) {
                found.push(Path([vec![token.clone()], path.0].concat()));
            }
        };
        match self {
            Model::List(items) => (0..)
                .zip(items)
                .for_each(|(index, item)| below(Err(index), item)),
            Model::Map(entries) => entries
                .iter()
                .for_each(|(key, value)| below(Ok(key.clone()), value)),
            _ => {}
        }
        found
    }

    /// Whether there is a list or a map at `pointer`.
    pub(super) fn has_below(&self, pointer: &str) -> bool {
        let mut at = self;
        for step in pointer.split('/').skip(1) {
            let next = match at {
                Model::Map(entries) => entries
                    .iter()
                    .find(|(key, _)| key == step)
                    .map(|(_, value)| value),
                Model::List(items) => step.parse().ok().and_then(|index: usize| items.get(index)),
                _ => None,
            };
            let Some(next) = next else { return false };
            at = next;
        }
        matches!(at, Model::Map(_) | Model::List(_))
    }

    /// The same with another scalar at `path`.
    pub(super) fn changed(&self, path: &Path) -> Model {
        let Some((first, rest)) = path.0.split_first() else {
            return match self {
                Model::Number(number) => Model::Number(number ^ 1),
                Model::Bool(is) => Model::Bool(!is),
                Model::Text(text) => Model::Text(format!("{text}x")),
                _ => Model::Number(7),
            };
        };
        let rest = Path(rest.to_vec());
        let mut changed = self.clone();
        match (&mut changed, first) {
            (Model::List(items), Err(index)) => items[*index] = items[*index].changed(&rest),
            (Model::Map(entries), Ok(key)) => {
                for (own, value) in entries.iter_mut() {
                    if own == key {
                        *value = value.changed(&rest);
                    }
                }
            }
            _ => {}
        }
        changed
    }

    /// In one of many ways.
    pub(super) fn written(&self, format: Format, seed: u64) -> String {
        self.write(
            format,
            &mut Writer {
                dice: Dice::new(seed),
                comments: None,
            },
        )
    }

    /// In one of many ways, with comments that say `~keep` wherever one can stand.
    pub(super) fn commented(&self, format: Format, seed: u64) -> String {
        let comments = match format {
            Format::Json => None,
            Format::Json5 => Some("//"),
            _ => Some("#"),
        };
        self.write(
            format,
            &mut Writer {
                dice: Dice::new(seed),
                comments,
            },
        )
    }

    fn write(&self, format: Format, writer: &mut Writer) -> String {
        let Model::Map(entries) = self else {
            return String::new();
        };
        match format {
            Format::Json | Format::Json5 => writer.json(self, 0) + writer.dice.pick(&["", "\n"]),
            Format::Yaml => writer.yaml(self, 0),
            Format::Toml => writer.toml(entries),
            Format::Env => writer.lines(entries, &["="]),
            Format::KeyValue => writer.lines(entries, &[" ", "=", " = ", "\t"]),
            Format::Ini => {
                let mut text = String::new();
                for (name, section) in writer.shuffled(entries) {
                    text += &writer.comment("");
                    text += &format!("[{name}]\n");
                    if let Model::Map(entries) = section {
                        text += &writer.lines(&entries, &["=", " = ", ": "]);
                    }
                }
                text
            }
        }
    }
}

struct Writer {
    dice: Dice,
    comments: Option<&'static str>,
}

impl Writer {
    fn shuffled(&mut self, entries: &[(String, Model)]) -> Vec<(String, Model)> {
        let mut left = entries.to_vec();
        let mut shuffled = Vec::new();
        while !left.is_empty() {
            shuffled.push(left.swap_remove(self.dice.below(left.len())));
        }
        shuffled
    }

    /// A line with a comment, sometimes.
    fn comment(&mut self, indent: &str) -> String {
        match self.comments {
            Some(sign) if self.dice.below(3) == 0 => format!("{indent}{sign} ~keep\n"),
            _ => String::new(),
        }
    }

    fn lines(&mut self, entries: &[(String, Model)], separators: &[&str]) -> String {
        let mut text = String::new();
        for (key, value) in self.shuffled(entries) {
            text += &self.comment("");
            text += self.dice.pick(&["", "\n"]);
            let Model::Text(value) = value else { continue };
            let separator = self.dice.pick(separators);
            let quote = match separators {
                ["="] => self.dice.pick(&["\"", "'"]),
                _ => "",
            };
            text += &format!("{key}{separator}{quote}{value}{quote}\n");
        }
        text
    }

    fn json(&mut self, model: &Model, depth: usize) -> String {
        let lines = self.comments.is_some() || self.dice.below(2) == 0;
        let (open, between, end) = if lines {
            let inside = format!("\n{}", "  ".repeat(depth + 1));
            (inside.clone(), inside, format!("\n{}", "  ".repeat(depth)))
        } else {
            (
                String::new(),
                self.dice.pick(&["", " ", "  "]).to_owned(),
                String::new(),
            )
        };
        let items: Vec<String> = match model {
            Model::List(items) => items
                .iter()
                .map(|item| self.json(item, depth + 1))
                .collect(),
            Model::Map(entries) => {
                let entries = self.shuffled(entries);
                let entries = entries.iter().map(|(key, value)| {
                    let gap = self.dice.pick(&["", " "]);
                    format!("\"{key}\"{gap}: {}", self.json(value, depth + 1))
                });
                entries.collect()
            }
            scalar => return self.scalar(scalar),
        };
        let [left, right] = if matches!(model, Model::List(_)) {
            ["[", "]"]
        } else {
            ["{", "}"]
        };
        if items.is_empty() {
            return format!("{left}{right}");
        }
        let mut text = left.to_owned();
        for (index, item) in items.iter().enumerate() {
            let last = index + 1 == items.len();
            text += if index == 0 { &open } else { &between };
            text += item;
            text += if last { "" } else { "," };
            if let Some(sign) = self.comments
                && self.dice.below(3) == 0
            {
                text += &format!(" {sign} ~keep");
            }
        }
        format!("{text}{end}{right}")
    }

    fn scalar(&mut self, model: &Model) -> String {
        match model {
            Model::Null => "null".to_owned(),
            Model::Bool(is) => is.to_string(),
            Model::Number(number) => number.to_string(),
            Model::Text(text) => serde_json::to_string(text).expect("a string"),
            Model::List(_) | Model::Map(_) => String::new(),
        }
    }

    /// With its lines' ends.
    fn yaml(&mut self, model: &Model, depth: usize) -> String {
        let indent = "  ".repeat(depth);
        let mut text = String::new();
        match model {
            Model::Map(entries) => {
                for (key, value) in self.shuffled(entries) {
                    text += &self.comment(&indent);
                    text += &format!("{indent}{key}:{}", self.yaml_value(&value, depth + 1));
                }
            }
            Model::List(items) => {
                for item in items {
                    text += &self.comment(&indent);
                    text += &format!("{indent}-{}", self.yaml_value(item, depth + 1));
                }
            }
            _ => {}
        }
        text
    }

    fn yaml_value(&mut self, model: &Model, depth: usize) -> String {
        let is_empty = match model {
            Model::List(items) => items.is_empty(),
            Model::Map(entries) => entries.is_empty(),
            _ => true,
        };
        let tail = match self.comments {
            Some(_) if self.dice.below(3) == 0 => " # ~keep\n",
            _ => "\n",
        };
        if !is_empty && self.dice.below(3) > 0 {
            return format!("{tail}{}", self.yaml(model, depth));
        }
        let comments = self.comments.take();
        let flow = match model {
            Model::Text(text) if text.chars().all(|c| c.is_ascii_lowercase()) && text.len() > 5 => {
                text.clone()
            }
            Model::Text(text) if !text.contains('\n') && self.dice.below(2) == 0 => {
                format!("'{}'", text.replace('\'', "''"))
            }
            model => self.json_line(model),
        };
        self.comments = comments;
        format!(" {flow}{tail}")
    }

    /// On one line.
    fn json_line(&mut self, model: &Model) -> String {
        let inside: Vec<String> = match model {
            Model::List(items) => items.iter().map(|item| self.json_line(item)).collect(),
            Model::Map(entries) => {
                let entries = self.shuffled(entries);
                entries
                    .iter()
                    .map(|(key, value)| format!("{key}: {}", self.json_line(value)))
                    .collect()
            }
            scalar => return self.scalar(scalar),
        };
        let inside = inside.join(self.dice.pick(&[", ", ",  "]));
        if matches!(model, Model::List(_)) {
            format!("[{inside}]")
        } else {
            format!("{{{inside}}}")
        }
    }

    fn toml(&mut self, entries: &[(String, Model)]) -> String {
        let mut values = String::new();
        let mut tables = String::new();
        for (key, value) in self.shuffled(entries) {
            match &value {
                Model::Map(entries) if self.dice.below(2) == 0 => {
                    tables += &self.comment("");
                    tables += &format!("\n[{key}]\n");
                    for (key, value) in self.shuffled(entries) {
                        tables += &self.comment("");
                        tables += &format!("{key} = {}\n", self.toml_line(&value));
                    }
                }
                value => {
                    values += &self.comment("");
                    values += &format!("{key} = {}\n", self.toml_line(value));
                }
            }
        }
        values + &tables
    }

    fn toml_line(&mut self, model: &Model) -> String {
        let inside: Vec<String> = match model {
            Model::List(items) => items.iter().map(|item| self.toml_line(item)).collect(),
            Model::Map(entries) => {
                let entries = self.shuffled(entries);
                entries
                    .iter()
                    .map(|(key, value)| format!("{key} = {}", self.toml_line(value)))
                    .collect()
            }
            scalar => return self.scalar(scalar),
        };
        let inside = inside.join(", ");
        if matches!(model, Model::List(_)) {
            format!("[{inside}]")
        } else {
            format!("{{{inside}}}")
        }
    }
}
