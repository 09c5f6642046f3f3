//! Case files: Markdown with a plugin's name as its title and one case a `##` heading.
//!
//! A case has fenced blocks: `cluster` (statements; `cluster with A B` also runs the filters of
//! those plugins), optionally `args` (the plugin's arguments, see [`super::literal`]; `args of A` are those
//! of another plugin) and `changes` (statements whose queueing hints are shown), and last `expect` (what [`super::run`] answers).
//! Everything else is prose for the reader.

use std::collections::BTreeMap;

/// A case file.
#[derive(Debug)]
pub struct CaseFile {
    pub plugin: String,
    pub cases: Vec<Case>,
    lines: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Case {
    pub title: String,
    /// Plugins whose PreFilter and Filter also decide where the pod fits.
    pub with: Vec<String>,
    pub cluster: String,
    pub args: String,
    /// Arguments of plugins of `with`, by name.
    pub args_of: BTreeMap<String, String>,
    pub changes: String,
    pub expect: String,
    /// The lines of the `expect` block, without its fences.
    expect_lines: std::ops::Range<usize>,
}

impl CaseFile {
    /// Reads a case file.
    ///
    /// # Errors
    /// A missing title, a block outside a case, of an unknown kind or given twice, a case without
    /// `expect` block.
    pub fn read(markdown: &str) -> Result<CaseFile, String> {
        let lines: Vec<String> = markdown.lines().map(str::to_owned).collect();
        let mut file = CaseFile { plugin: String::new(), cases: Vec::new(), lines: Vec::new() };
        let mut at = 0;
        while at < lines.len() {
            let line = &lines[at];
            if let Some(title) = line.strip_prefix("## ") {
                file.cases.push(Case { title: title.trim().to_owned(), ..Case::default() });
            } else if let Some(title) = line.strip_prefix("# ") {
                file.plugin = title.trim().to_owned();
            } else if let Some(info) = line.strip_prefix("```") {
                let end = (at + 1..lines.len()).find(|&end| lines[end].starts_with("```"));
                let end = end.ok_or_else(|| format!("line {}: block isn't closed", at + 1))?;
                let case = file.cases.last_mut().ok_or("a block stands before the first case")?;
                case.block(info, at + 1..end, &lines)?;
                at = end;
            }
            at += 1;
        }
        file.lines = lines;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), String> {
        if self.plugin.is_empty() {
            return Err("the title `# PluginName` is missing".into());
        }
        match self.cases.iter().find(|case| case.expect_lines.start == 0) {
            Some(case) => Err(format!("case {:?} has no expect block", case.title)),
            None => Ok(()),
        }
    }

    /// Returns the file with the expect blocks replaced. Shape: one answer a case, in order.
    pub fn rewritten(&self, answers: &[String]) -> String {
        let mut text = String::new();
        let mut copied = 0;
        for (case, answer) in self.cases.iter().zip(answers) {
            copy(&mut text, &self.lines[copied..case.expect_lines.start]);
            text.push_str(answer);
            copied = case.expect_lines.end;
        }
        copy(&mut text, &self.lines[copied..]);
        text
    }
}

impl Case {
    fn block(
        &mut self,
        info: &str,
        range: std::ops::Range<usize>,
        lines: &[String],
    ) -> Result<(), String> {
        let mut body = String::new();
        copy(&mut body, &lines[range.clone()]);
        let mut words = info.split_whitespace();
        let kind = words.next().unwrap_or("");
        if let Some(plugin) = info.strip_prefix("args of ") {
            self.args_of.insert(plugin.trim().to_owned(), body);
            return Ok(());
        }
        let into = match kind {
            "cluster" => &mut self.cluster,
            "args" => &mut self.args,
            "changes" => &mut self.changes,
            "expect" => {
                self.expect_lines = range;
                &mut self.expect
            }
            _ => return Err(format!("line {}: unknown block {info:?}", range.start)),
        };
        if !into.is_empty() {
            return Err(format!("case {:?} has two blocks {kind:?}", self.title));
        }
        *into = body;
        match (kind, words.next()) {
            ("cluster", Some("with")) => self.with = words.map(str::to_owned).collect(),
            (_, None) => {}
            (_, Some(_)) => return Err(format!("unknown words in block {info:?}")),
        }
        Ok(())
    }
}

fn copy(text: &mut String, lines: &[String]) {
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
}
