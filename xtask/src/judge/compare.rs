//! Compares the records of two programs, field by field.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use serde_json::Value;

/// Tool to compare with, and its known differences.
pub(super) struct ReferenceTool {
    pub(super) name: &'static str,
    pub(super) known_difference: KnownDifference,
    /// Returns a description of the record, for messages about differences.
    pub(super) describe_record: fn(record: &Value) -> String,
}

/// Returns the reason for a known difference of two values, by their path in the record.
pub(super) type KnownDifference = fn(path: &str, theirs: &Value, ours: &Value) -> Option<&'static str>;

/// Compares record by record. Known differences are counted, any other difference is an error.
pub(super) fn compare(judge: &ReferenceTool, theirs: &[Value], ours: &[Value]) -> Result<()> {
    let name = judge.name;
    let (mut known, mut unknown) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for (their, our) in theirs.iter().zip(ours) {
        let mut differences = Vec::new();
        collect_differences(their, our, String::new(), &mut differences);
        for (path, theirs_is, ours_is) in differences {
            match (judge.known_difference)(&path, &theirs_is, &ours_is) {
                Some(reason) => *known.entry(reason).or_default() += 1,
                None => unknown.push(format!(
                    "{path} in {}: {name} {theirs_is}, bintide {ours_is}",
                    (judge.describe_record)(our)
                )),
            }
        }
    }
    println!("{name}: {} records are the same, except:", theirs.len());
    for (reason, count) in known {
        println!("{count:6}  {reason}");
    }
    if !unknown.is_empty() {
        bail!("{} unknown differences:\n{}", unknown.len(), unknown.join("\n"));
    }
    ensure!(theirs.len() == ours.len(), "{name} has {} records, bintide {}", theirs.len(), ours.len());
    Ok(())
}

/// Collects the differences of two values, with their paths in the record.
fn collect_differences(theirs: &Value, ours: &Value, path: String, found: &mut Vec<(String, Value, Value)>) {
    match (theirs, ours) {
        (Value::Object(their), Value::Object(our)) => {
            let mut names: Vec<&String> = their.keys().chain(our.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let absent = Value::String("(absent)".to_owned());
                let [their, our] = [their, our].map(|object| object.get(name).unwrap_or(&absent));
                collect_differences(their, our, format!("{path}.{name}"), found);
            }
        }
        (Value::Array(their), Value::Array(our)) if their.len() == our.len() => {
            for (index, (their, our)) in their.iter().zip(our).enumerate() {
                collect_differences(their, our, format!("{path}[{index}]"), found);
            }
        }
        _ if theirs == ours => {}
        _ => found.push((path, theirs.clone(), ours.clone())),
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns whether the values are the same FLOAT.
pub(super) fn same_float(theirs: &Value, ours: &Value) -> bool {
    match (theirs.as_f64(), ours.as_f64()) {
        (Some(their), Some(our)) => (theirs.is_f64() || ours.is_f64()) && their as f32 == our as f32,
        _ => false,
    }
}
