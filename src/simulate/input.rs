//! Files as documents: YAML or JSON, several a file, Lists taken apart, each with its place.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::place;

/// Lists within lists are taken apart this deep; kubectl never nests them.
const LIST_DEPTH_MAX: usize = 8;

/// Where a document stands, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it; `-` for stdin.
    pub file: Arc<str>,
    /// Counted from 1, as the file's `---` lines do.
    pub document: usize,
    /// Where the document begins. Counted from 1.
    pub line: usize,
    /// Where in the document the object is, such as `items[3]`; empty if it is the document.
    pub path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}, line {}", self.file, self.document, self.line)
    }
}

/// Something that can't be used, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct InputError {
    pub place: Place,
    pub what: String,
}

/// One object of a file.
#[derive(Clone, Debug)]
pub struct Document {
    pub place: Place,
    /// The text of the whole document.
    pub text: Arc<str>,
    pub value: Value,
}

impl Document {
    /// Makes an error about the field at `path` of this object, with the field's own line.
    pub fn error(&self, path: &str, what: impl fmt::Display) -> InputError {
        let full = place::joined(&self.place.path, path);
        let line = place::line_of(&self.text, &full).unwrap_or(1);
        let place = Place { line: self.place.line + line - 1, ..self.place.clone() };
        let what = if full.is_empty() { what.to_string() } else { format!("{full}: {what}") };
        InputError { place, what }
    }

    pub fn text_at(&self, pointer: &str) -> Option<&str> {
        self.value.pointer(pointer).and_then(Value::as_str)
    }

    pub fn kind(&self) -> &str {
        self.text_at("/kind").unwrap_or_default()
    }

    pub fn api_version(&self) -> &str {
        self.text_at("/apiVersion").unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.text_at("/metadata/name").unwrap_or_default()
    }

    /// Returns `namespace/name`, with `default` for a namespace that is left out.
    pub fn namespaced_name(&self) -> String {
        let namespace = self.text_at("/metadata/namespace").filter(|n| !n.is_empty());
        format!("{}/{}", namespace.unwrap_or("default"), self.name())
    }
}

/// Reads the documents of a file's text; empty ones are left out, Lists are taken apart.
///
/// # Errors
/// One for each document that is neither YAML nor an object with `apiVersion` and `kind`.
pub fn read(file: &str, text: &str) -> Result<Vec<Document>, Vec<InputError>> {
    let file: Arc<str> = file.into();
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    for (at, (line, range)) in pieces(text).into_iter().enumerate() {
        let place = Place { file: file.clone(), document: at + 1, line, path: String::new() };
        match parse(&text[range.clone()], &place) {
            Ok(Value::Null) => {}
            Ok(value) => {
                let text = text[range].into();
                flatten(Document { place, text, value }, 0, &mut documents, &mut errors);
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(documents) } else { Err(errors) }
}

/// Returns first line and extent of each document.
///
/// YAML forbids `---` and `...` at the start of a line within a document, so splitting there is
/// exact; one broken document then says nothing about the next.
fn pieces(text: &str) -> Vec<(usize, Range<usize>)> {
    let (mut pieces, mut begin, mut first_line) = (Vec::new(), 0, 1);
    let (mut offset, mut open) = (0, false);
    for (at, line) in text.split_inclusive('\n').enumerate() {
        if is_mark(line, "---") || is_mark(line, "...") {
            if open || has_content(&text[begin..offset]) {
                pieces.push((first_line, begin..offset));
            }
            open = is_mark(line, "---");
            // What follows the marker on its line belongs to the document.
            let bare = line[3..].trim().is_empty();
            begin = if bare { offset + line.len() } else { offset + 3 };
            first_line = if bare { at + 2 } else { at + 1 };
        }
        offset += line.len();
    }
    if open || has_content(&text[begin..]) {
        pieces.push((first_line, begin..text.len()));
    }
    pieces
}

fn is_mark(line: &str, mark: &str) -> bool {
    let rest = line.strip_prefix(mark);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r']))
}

fn has_content(piece: &str) -> bool {
    let bare = |line: &str| line.is_empty() || line.starts_with(['#', '%']);
    !piece.trim_start_matches('\u{feff}').lines().all(|line| bare(line.trim()))
}

fn parse(text: &str, place: &Place) -> Result<Value, InputError> {
    serde_saphyr::from_str_with_options(text, place::options()).map_err(|error| {
        let line = error.location().and_then(|location| usize::try_from(location.line()).ok());
        let line = place.line + line.unwrap_or(1).saturating_sub(1);
        let what = format!("not readable as YAML: {}", first_line(&error.to_string()));
        InputError { place: Place { line, ..place.clone() }, what }
    })
}

/// Cuts the parser's position off: it counts from the document's begin, and ours is in the place.
fn first_line(message: &str) -> &str {
    let line = message.lines().next().unwrap_or_default();
    line.rsplit_once(" at line ").map_or(line, |(what, _)| what)
}

fn flatten(
    document: Document,
    depth: usize,
    documents: &mut Vec<Document>,
    errors: &mut Vec<InputError>,
) {
    if let Some(what) = no_object(&document.value) {
        errors.push(document.error("", what));
        return;
    }
    let Some(item_kind) = list_of(&document) else {
        return documents.push(document);
    };
    if depth >= LIST_DEPTH_MAX {
        errors.push(document.error("items", "too many Lists within Lists"));
        return;
    }
    let Document { place, text, mut value } = document;
    let api_version = value["apiVersion"].take();
    let Value::Array(items) = value["items"].take() else { return };
    for (at, mut item) in items.into_iter().enumerate() {
        if let (Some(kind), Value::Object(fields)) = (&item_kind, &mut item) {
            fields.entry("apiVersion").or_insert_with(|| api_version.clone());
            fields.entry("kind").or_insert_with(|| kind.as_str().into());
        }
        let path = place::joined(&place.path, &format!("items[{at}]"));
        // Finding an item's own line means parsing the document again: only errors do it.
        let place = Place { path, ..place.clone() };
        flatten(Document { place, text: text.clone(), value: item }, depth + 1, documents, errors);
    }
}

/// Tells whether the document is a List, and of what if its kind says so: a `PodList` that the API
/// server answers has items without kinds.
fn list_of(document: &Document) -> Option<Option<String>> {
    if !document.value.get("items").is_some_and(|items| items.is_array() || items.is_null()) {
        return None;
    }
    match document.kind().strip_suffix("List")? {
        "" => Some(None),
        kind => Some(Some(kind.to_owned())),
    }
}

fn no_object(value: &Value) -> Option<&'static str> {
    let Value::Object(fields) = value else {
        return Some("is no Kubernetes object, which is a mapping with apiVersion and kind");
    };
    let text = |key: &str| fields.get(key).and_then(Value::as_str).is_some_and(|t| !t.is_empty());
    match (text("apiVersion"), text("kind")) {
        (true, true) => None,
        (false, true) => Some("has no apiVersion"),
        (true, false) => Some("has no kind"),
        (false, false) => Some("has neither apiVersion nor kind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(usize, usize, String)> {
        let of = |d: &Document| (d.place.document, d.place.line, d.kind().to_owned());
        read("f", text).unwrap().iter().map(of).collect()
    }

    fn complaints(text: &str) -> Vec<String> {
        read("f", text).unwrap_err().iter().map(InputError::to_string).collect()
    }

    #[test]
    fn documents_are_numbered_and_know_their_lines() {
        let text = "# header\n---\napiVersion: v1\nkind: A\n---\n# nothing\n--- \n{apiVersion: v1, kind: B}\n";
        assert_eq!(kinds(text), [(1, 3, "A".into()), (3, 8, "B".into())]);
        assert_eq!(kinds("apiVersion: v1\nkind: A"), [(1, 1, "A".into())]);
        assert_eq!(kinds("--- {apiVersion: v1, kind: A}\n...\n"), [(1, 1, "A".into())]);
        assert_eq!(kinds(""), []);
    }

    #[test]
    fn a_list_is_taken_apart_and_items_get_the_kind_of_theirs() {
        let text = r#"{"apiVersion":"v1","kind":"List","items":[
            {"apiVersion":"v1","kind":"Node"},
            {"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}}]}]}"#;
        let documents = read("f", text).unwrap();
        assert_eq!(documents.iter().map(Document::kind).collect::<Vec<_>>(), ["Node", "Pod"]);
        assert_eq!(documents[1].place.path, "items[1].items[0]");
        let error = documents[1].error("metadata.name", "odd");
        assert_eq!(
            error.to_string(),
            "f: document 1, line 3: items[1].items[0].metadata.name: odd"
        );
    }

    #[test]
    fn each_broken_document_is_told_with_its_line() {
        let text = "apiVersion: v1\nkind: A\nmetadata: {a: 1\n---\nkind: B\n---\n- 1\n";
        let complaints = complaints(text);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints[0].starts_with("f: document 1, line "), "{complaints:?}");
        assert!(!complaints[0].contains(" at line "), "{complaints:?}");
        assert_eq!(complaints[1], "f: document 2, line 5: has no apiVersion");
        assert!(complaints[2].starts_with("f: document 3, line 7: is no Kubernetes object"));
    }

    #[test]
    fn hostile_files_are_errors() {
        let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
        let bomb = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nkind: {? {a: 1} : 2}\n";
        for text in [deep.as_str(), bomb, "a: 1\na: 2", "\u{0}", "&a [*a]", "kind: [", "\t- x"] {
            assert!(read("f", text).is_err(), "{text:.40}");
        }
    }
}
