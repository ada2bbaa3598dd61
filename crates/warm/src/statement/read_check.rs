//! Check that the text after a SELECT's FROM only reads rows.

use sql::lexer::{SqlToken, SqlTokenKind};

use crate::statement::SkipReason;
use crate::statement::function_set::FunctionSet;
use crate::statement::statement_text::StatementText;
use crate::statement::table_finder::{ReadTables, find_tables};

/// Words and signs of a text. Bounds the nesting depth.
const WORDS_MAX: usize = 1000;

/// Returns the tables of `SELECT 0 FROM` followed by this text.
///
/// # Errors
///
/// Fails if a part of the text may do more than read.
pub(super) fn check_tables(
    rows: &StatementText<'_>,
    functions: FunctionSet,
) -> Result<ReadTables, SkipReason> {
    let mut tokens = rows.tokens()?;
    if tokens.iter().any(|token| token.kind == SqlTokenKind::Comment) {
        return Err(SkipReason::Comment);
    }
    tokens.retain(|token| !token.is_blank());
    check_words(rows, &tokens, functions)?;
    let found = find_tables(rows)?;
    if found.tables.is_empty() { Err(SkipReason::Table) } else { Ok(found) }
}

/// Checks that each word and sign is known.
fn check_words(
    rows: &StatementText<'_>,
    tokens: &[SqlToken],
    functions: FunctionSet,
) -> Result<(), SkipReason> {
    use SqlTokenKind as K;
    let mut nested = 0;
    for (at, token) in tokens.iter().enumerate() {
        let is_call = tokens.get(at + 1).is_some_and(|next| rows.is_sign(next, b'('));
        match (token.kind, rows.bytes(token)) {
            (K::Number | K::String, _) | (K::Sign, b",") => continue,
            (K::Hex | K::Bits, _) => {}
            // Built-in functions cannot be called by a quoted name.
            (K::QuotedName, _) if is_call => return Err(SkipReason::Function),
            (K::QuotedName, _) => {}
            (K::Word, word) => {
                let is_part = at.checked_sub(1).is_some_and(|before| rows.is_sign(&tokens[before], b'.'));
                let is_adjacent = tokens.get(at + 1).is_some_and(|next| next.at.start == token.at.end);
                let context = match (is_part, is_call, is_adjacent) {
                    (true, true, _) => WordContext::QualifiedCall,
                    (true, false, _) => WordContext::NamePart,
                    (false, true, true) => WordContext::Call,
                    (false, true, false) => WordContext::DistantParenthesis,
                    (false, false, _) => WordContext::Other,
                };
                check_word(&String::from_utf8_lossy(word), context, functions)?;
            }
            (K::Sign, b"@" | b":" | b"?") => return Err(SkipReason::Variable),
            (K::Sign, [sign]) if SIGNS.contains(sign) => {}
            _ => return Err(SkipReason::Unknown),
        }
        nested += 1;
    }
    if nested > WORDS_MAX { Err(SkipReason::Size) } else { Ok(()) }
}

/// The signs before and after a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordContext {
    /// An opening parenthesis directly after the word.
    Call,
    /// An opening parenthesis after a blank.
    DistantParenthesis,
    /// A period before the word, and an opening parenthesis after it.
    QualifiedCall,
    /// A period before the word.
    NamePart,
    Other,
}

fn check_word(word: &str, context: WordContext, functions: FunctionSet) -> Result<(), SkipReason> {
    let lower = word.to_ascii_lowercase();
    let is_in = |words: &[&str]| words.contains(&lower.as_str());
    let is_known = match context {
        WordContext::Call => functions.contains(&lower) || is_in(&BEFORE_PARENTHESES),
        // May be the name of a stored function.
        WordContext::DistantParenthesis => is_in(&BEFORE_PARENTHESES),
        // The name of a stored function.
        WordContext::QualifiedCall => false,
        WordContext::NamePart => true,
        WordContext::Other if is_in(&REFUSED_CLAUSE_WORDS) => return Err(SkipReason::Clause),
        WordContext::Other => true,
    };
    if is_known { Ok(()) } else { Err(SkipReason::Function) }
}

/// Bytes of operators and punctuation that are allowed.
const SIGNS: &[u8] = b"=<>+-*/%|().&^~!";

/// Words that start a clause that does not only read: it locks, writes, or takes the next value of a sequence.
const REFUSED_CLAUSE_WORDS: [&str; 6] = ["into", "for", "lock", "procedure", "set", "with"];

/// Words other than functions that parentheses may follow.
const BEFORE_PARENTHESES: [&str; 34] = [
    "and",
    "as",
    "between",
    "binary",
    "by",
    "case",
    "decimal",
    "distinct",
    "div",
    "else",
    "exists",
    "from",
    "having",
    "in",
    "index",
    "interval",
    "is",
    "join",
    "key",
    "like",
    "limit",
    "mod",
    "not",
    "on",
    "or",
    "partition",
    "regexp",
    "rlike",
    "select",
    "then",
    "using",
    "when",
    "where",
    "xor",
];
