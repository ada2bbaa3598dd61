//! The files of the AWS command line: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

use super::credential_process::CredentialProcess;

/// Settings of a profile from which the AWS command line would get credentials, and bintide does not.
const UNSUPPORTED: [&str; 3] = ["role_arn", "sso_session", "sso_start_url"];

/// Adds what the environment does not set from the files of the AWS command line: keys or their `credential_process`,
/// region and endpoint of the profile. An endpoint with `http://` is used without TLS, because it was given so.
///
/// # Errors
///
/// Fails if only an unsupported setting of the profile names credentials.
pub(super) fn with_profile(mut builder: AmazonS3Builder) -> Result<AmazonS3Builder, String> {
    let profile = env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
    let credentials = read_section("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", &profile)?;
    let section = if profile == "default" { profile.clone() } else { format!("profile {profile}") };
    let config = read_section("AWS_CONFIG_FILE", ".aws/config", &section)?;
    if credentials.is_none() && config.is_none() && env::var_os("AWS_PROFILE").is_some() {
        return Err(format!("no file has the AWS profile {profile} of AWS_PROFILE"));
    }
    let (credentials, config) = (credentials.unwrap_or_default(), config.unwrap_or_default());
    let value = |name: &str| credentials.get(name).or_else(|| config.get(name)).cloned();
    let has_keys = builder.get_config_value(&AmazonS3ConfigKey::AccessKeyId).is_some();
    if let (false, Some(id), Some(secret)) =
        (has_keys, value("aws_access_key_id"), value("aws_secret_access_key"))
    {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        if let Some(token) = value("aws_session_token") {
            builder = builder.with_token(token);
        }
    } else if !has_keys && env::var_os("AWS_WEB_IDENTITY_TOKEN_FILE").is_none() {
        let is_set = |name: &&str| value(name).is_some();
        if let Some(name) = UNSUPPORTED.into_iter().find(is_set) {
            return Err(format!(
                "the AWS profile {profile} gets its credentials by {name}, which is not supported: set AWS_PROFILE to \
                 another profile, with `credential_process = aws configure export-credentials --format process \
                 --profile {profile}`"
            ));
        }
        if let Some(command) = value("credential_process") {
            builder = builder.with_credentials(Arc::new(CredentialProcess::new(command)));
        }
    }
    let settings =
        [(AmazonS3ConfigKey::DefaultRegion, "region"), (AmazonS3ConfigKey::Endpoint, "endpoint_url")];
    for (key, name) in settings {
        let is_set = builder.get_config_value(&key).is_some()
            || (name == "region" && builder.get_config_value(&AmazonS3ConfigKey::Region).is_some());
        if let (false, Some(value)) = (is_set, value(name)) {
            builder = builder.with_config(key, value);
        }
    }
    Ok(match builder.get_config_value(&AmazonS3ConfigKey::Endpoint) {
        Some(endpoint) if endpoint.starts_with("http://") => builder.with_allow_http(true),
        _ => builder,
    })
}

/// Returns the settings of one section; `None` if the file or the section is missing.
fn read_section(
    variable: &str,
    file: &str,
    section: &str,
) -> Result<Option<HashMap<String, String>>, String> {
    let chosen = env::var_os(variable).map(PathBuf::from);
    let is_chosen = chosen.is_some();
    let Some(path) = chosen.or_else(|| env::home_dir().map(|home| home.join(file))) else { return Ok(None) };
    match fs::read_to_string(&path) {
        Ok(text) => Ok(parse_section(&text, section)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // A service may have no access to home directories, and get its credentials from the machine.
        Err(error) if error.kind() == ErrorKind::PermissionDenied && !is_chosen => Ok(None),
        Err(error) => Err(format!("could not read {}: {error}", path.display())),
    }
}

/// Returns the settings of one section; `None` if the text has no such section.
fn parse_section(text: &str, section: &str) -> Option<HashMap<String, String>> {
    let mut settings = HashMap::new();
    let (mut is_inside, mut is_found) = (false, false);
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_inside = name.trim() == section;
            is_found |= is_inside;
            continue;
        }
        // Indented lines belong to the setting above them.
        let is_setting = is_inside && !line.starts_with([' ', '\t', '#', ';']);
        if let (true, Some((name, value))) = (is_setting, trimmed.split_once('=')) {
            settings.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    is_found.then_some(settings)
}

#[cfg(test)]
mod tests {
    use super::parse_section;

    #[test]
    fn sections_of_aws_files() {
        let text = "[default]\nregion = eu-west-1\ns3 =\n  max_concurrent_requests = 9\n\n# region = x\n\
                    [profile backup]\nREGION=us-east-2\nendpoint_url = http://127.0.0.1:9000\n";
        let check = |section: &str, name: &str, expected: Option<&str>| {
            let settings = parse_section(text, section).unwrap_or_default();
            assert_eq!(settings.get(name).map(String::as_str), expected, "{section} {name}");
        };
        check("default", "region", Some("eu-west-1"));
        check("default", "max_concurrent_requests", None);
        check("profile backup", "region", Some("us-east-2"));
        check("profile backup", "endpoint_url", Some("http://127.0.0.1:9000"));
        assert_eq!(parse_section(text, "backup"), None);
    }
}
