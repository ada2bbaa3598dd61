//! Passwords in the form that servers store, and the check of a client's response.

use std::fmt;

use rsa::rand_core::RngCore as _;
use sha1::{Digest as _, Sha1};
use sha2::{Digest as _, Sha256};

use super::auth::AuthPlugin;
use super::seeded_bytes::SeededBytes;
use crate::error::WireError;

/// Size of the salt of caching_sha2_password: `SALT_LENGTH` of `sql/auth/i_sha2_password_common.h`.
const SALT_SIZE: usize = 20;
/// Size of the encoded hash of caching_sha2_password: `STORED_SHA256_DIGEST_LENGTH`.
const ENCODED_HASH_SIZE: usize = 43;
/// Maximum size of a password: `CACHING_SHA2_PASSWORD_MAX_PASSWORD_LENGTH`. Limits the duration of a check.
const PASSWORD_SIZE_MAX: usize = 256;
/// Unit of the number of rounds in a stored hash: `ITERATION_MULTIPLIER`.
const ROUNDS_UNIT: u32 = 1000;
/// Number of rounds of new hashes, in units: the default of `caching_sha2_password_digest_rounds`.
const ROUNDS_DEFAULT: u16 = 5;
/// Range of the number of rounds, in units, as of `caching_sha2_password_digest_rounds`.
const ROUNDS_RANGE: std::ops::RangeInclusive<u16> = 5..=0xfff;
/// Digits of encoded hashes, and of the salts that this crate creates.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Authentication plugin of an account on this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordPlugin {
    /// `caching_sha2_password`, of MySQL 8 and later.
    CachingSha2,
    /// `mysql_native_password`, which all old clients support.
    Native,
}

impl PasswordPlugin {
    /// Returns the plugin's name in the protocol.
    pub fn name(self) -> &'static str {
        self.auth_plugin().name()
    }

    fn auth_plugin(self) -> AuthPlugin {
        match self {
            Self::CachingSha2 => AuthPlugin::CachingSha2,
            Self::Native => AuthPlugin::Native,
        }
    }
}

/// Password of an account, hashed as in `authentication_string` of MySQL's table `mysql.user`.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredPassword(StoredHash);

#[derive(Clone, PartialEq, Eq)]
enum StoredHash {
    /// The account has no password.
    Empty(PasswordPlugin),
    /// There is no such account.
    NoAccount(PasswordPlugin),
    /// `SHA1(SHA1(password))`
    Native([u8; 20]),
    CachingSha2(SaltedHash),
}

/// SHA-crypt of a password, as caching_sha2_password stores it.
#[derive(Clone, PartialEq, Eq)]
struct SaltedHash {
    /// Number of rounds, in units of [`ROUNDS_UNIT`].
    rounds: u16,
    salt: [u8; SALT_SIZE],
    hash: [u8; ENCODED_HASH_SIZE],
}

/// `SHA256(SHA256(password))`, with which caching_sha2_password checks a client after its first login.
///
/// Keep it in memory only, by account. The digest becomes invalid when the account gets another [`StoredPassword`].
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordDigest {
    digest: [u8; 32],
    /// SHA-256 of the stored hash of the same password.
    stored: [u8; 32],
}

impl StoredPassword {
    /// Returns the password of an account without a password. Clients of the account must not send a password.
    pub const fn empty(plugin: PasswordPlugin) -> Self {
        Self(StoredHash::Empty(plugin))
    }

    /// Returns a password that no client has, for names without an account. A client cannot distinguish such a name
    /// from an account with this plugin.
    pub const fn no_account(plugin: PasswordPlugin) -> Self {
        Self(StoredHash::NoAccount(plugin))
    }

    /// Hashes a password for mysql_native_password.
    pub fn native(password: &[u8]) -> Self {
        match password {
            [] => Self::empty(PasswordPlugin::Native),
            _ => Self(StoredHash::Native(Sha1::digest(Sha1::digest(password)).into())),
        }
    }

    /// Hashes a password for caching_sha2_password. The seed of the salt must be random.
    ///
    /// # Errors
    ///
    /// Fails if the password has more than 256 bytes, the servers' limit ([`WireError::TooLong`]).
    pub fn caching_sha2(password: &[u8], seed: [u8; 32]) -> Result<Self, WireError> {
        if password.is_empty() {
            return Ok(Self::empty(PasswordPlugin::CachingSha2));
        }
        if password.len() > PASSWORD_SIZE_MAX {
            return Err(WireError::TooLong {
                field: "password",
                found: password.len(),
                max: PASSWORD_SIZE_MAX,
            });
        }
        let mut salt = [0; SALT_SIZE];
        SeededBytes::new(seed).fill_bytes(&mut salt);
        let salt = salt.map(|byte| DIGITS[usize::from(byte % 64)]);
        Ok(Self(StoredHash::CachingSha2(SaltedHash::new(password, ROUNDS_DEFAULT, salt))))
    }

    /// Parses `authentication_string`: as stored by MySQL, or as a hexadecimal literal `0x…`, as MySQL shows it with
    /// `print_identified_with_as_hex`. MySQL's own salts contain control characters.
    ///
    /// # Errors
    ///
    /// Fails if this is neither a hash of mysql_native_password nor a hash of caching_sha2_password
    /// ([`WireError::PasswordHash`]). An empty string is an error too: see [`StoredPassword::empty`].
    pub fn parse(text: &[u8]) -> Result<Self, WireError> {
        let bytes = text.strip_prefix(b"0x").and_then(from_hex);
        let text = bytes.as_deref().unwrap_or(text);
        let native = || from_hex(text.strip_prefix(b"*")?)?.try_into().ok().map(StoredHash::Native);
        let hash = native().or_else(|| SaltedHash::parse(text).map(StoredHash::CachingSha2));
        hash.map(Self).ok_or(WireError::PasswordHash)
    }

    /// Returns `authentication_string`: empty without a password. Printable if this crate created the salt.
    pub fn to_text(&self) -> Vec<u8> {
        match &self.0 {
            StoredHash::Empty(_) | StoredHash::NoAccount(_) => Vec::new(),
            StoredHash::Native(hash) => {
                let digits = hash.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
                format!("*{digits}").into_bytes()
            }
            StoredHash::CachingSha2(salted) => salted.to_text(),
        }
    }

    /// Returns the account's authentication plugin.
    pub const fn plugin(&self) -> PasswordPlugin {
        match &self.0 {
            StoredHash::Empty(plugin) | StoredHash::NoAccount(plugin) => *plugin,
            StoredHash::Native(_) => PasswordPlugin::Native,
            StoredHash::CachingSha2(_) => PasswordPlugin::CachingSha2,
        }
    }

    /// Returns true if the account has no password.
    pub(super) const fn is_empty(&self) -> bool {
        matches!(self.0, StoredHash::Empty(_))
    }

    /// Checks the response of mysql_native_password: `SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password)))`.
    pub(super) fn accepts_native(&self, proof: &[u8; 20], nonce: &[u8]) -> bool {
        let StoredHash::Native(twice) = &self.0 else { return false };
        let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
        let once = xor(proof, &mask.into());
        is_equal(&Sha1::digest(once), twice)
    }

    /// Checks the password itself, for caching_sha2_password. Takes about a millisecond, even if there is no account.
    pub(super) fn accepts_password(&self, password: &[u8]) -> bool {
        if password.is_empty() || password.len() > PASSWORD_SIZE_MAX {
            return false;
        }
        match &self.0 {
            StoredHash::CachingSha2(salted) => {
                let found = SaltedHash::new(password, salted.rounds, salted.salt);
                is_equal(&found.hash, &salted.hash)
            }
            // Take as long as for an existing account.
            StoredHash::NoAccount(_) => {
                let _ = SaltedHash::new(password, ROUNDS_DEFAULT, [b'.'; SALT_SIZE]);
                false
            }
            StoredHash::Empty(_) | StoredHash::Native(_) => false,
        }
    }
}

/// Shows the plugin only.
impl fmt::Debug for StoredPassword {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StoredPassword").field("plugin", &self.plugin()).finish_non_exhaustive()
    }
}

impl PasswordDigest {
    /// Computes the digest of a password that `stored` has accepted.
    pub(super) fn new(password: &[u8], stored: &StoredPassword) -> Self {
        let digest = Sha256::digest(Sha256::digest(password)).into();
        Self { digest, stored: Sha256::digest(stored.to_text()).into() }
    }

    /// Checks the first response of caching_sha2_password, `SHA256(password) XOR SHA256(SHA256(SHA256(password)) +
    /// nonce)`, for an account with the password `stored`.
    pub(super) fn accepts(&self, proof: &[u8; 32], nonce: &[u8], stored: &StoredPassword) -> bool {
        let mask = Sha256::new().chain_update(self.digest).chain_update(nonce).finalize();
        let once = xor(proof, &mask.into());
        let is_current = is_equal(&Sha256::digest(stored.to_text()), &self.stored);
        is_current && is_equal(&Sha256::digest(once), &self.digest)
    }
}

/// Hides the digest.
impl fmt::Debug for PasswordDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PasswordDigest")
    }
}

impl SaltedHash {
    fn new(password: &[u8], rounds: u16, salt: [u8; SALT_SIZE]) -> Self {
        let hash = encode(&sha_crypt(password, &salt, u32::from(rounds) * ROUNDS_UNIT));
        Self { rounds, salt, hash }
    }

    // size  field
    //    3  $A$
    //    3  rounds, hexadecimal
    //    1  $
    //   20  salt
    //   43  hash
    fn parse(text: &[u8]) -> Option<Self> {
        let (rounds, rest) = text.strip_prefix(b"$A$")?.split_first_chunk::<3>()?;
        let rounds =
            str::from_utf8(rounds).ok().filter(|digits| digits.bytes().all(|one| one.is_ascii_hexdigit()))?;
        let rounds = u16::from_str_radix(rounds, 16).ok().filter(|rounds| ROUNDS_RANGE.contains(rounds))?;
        let (salt, hash) = rest.strip_prefix(b"$")?.split_first_chunk()?;
        let hash: [u8; ENCODED_HASH_SIZE] = hash.try_into().ok()?;
        hash.iter().all(|digit| DIGITS.contains(digit)).then_some(Self { rounds, salt: *salt, hash })
    }

    fn to_text(&self) -> Vec<u8> {
        [format!("$A${:03X}$", self.rounds).as_bytes(), &self.salt, &self.hash].concat()
    }
}

/// Computes the SHA-crypt of a password with SHA-256, as `my_crypt_genhash` of `mysys/crypt_genhash_impl.cc` does.
/// Other implementations truncate the salt to 16 bytes.
fn sha_crypt(password: &[u8], salt: &[u8; SALT_SIZE], rounds: u32) -> [u8; 32] {
    let swapped = Sha256::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut first = Sha256::new().chain_update(password).chain_update(salt);
    first.update(repeated(&swapped, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        match bits & 1 {
            0 => first.update(password),
            _ => first.update(swapped),
        }
        bits >>= 1;
    }
    let mut hash: [u8; 32] = first.finalize().into();
    let mut password_hash = Sha256::new();
    (0..password.len()).for_each(|_| password_hash.update(password));
    let password_bytes = repeated(&password_hash.finalize(), password.len());
    let mut salt_hash = Sha256::new();
    (0..16 + usize::from(hash[0])).for_each(|_| salt_hash.update(salt));
    let salt_bytes = repeated(&salt_hash.finalize(), salt.len());
    for round in 0..rounds {
        let is_odd = round & 1 == 1;
        let mut next = Sha256::new();
        next.update(if is_odd { &password_bytes } else { &hash[..] });
        if round % 3 != 0 {
            next.update(&salt_bytes);
        }
        if round % 7 != 0 {
            next.update(&password_bytes);
        }
        next.update(if is_odd { &hash[..] } else { &password_bytes });
        hash = next.finalize().into();
    }
    hash
}

/// Repeats the bytes up to this size.
fn repeated(bytes: &[u8], size: usize) -> Vec<u8> {
    bytes.iter().copied().cycle().take(size).collect()
}

/// Encodes a hash of SHA-crypt: three bytes as four digits, in SHA-crypt's byte order.
fn encode(hash: &[u8; 32]) -> [u8; ENCODED_HASH_SIZE] {
    let mut out = [0; ENCODED_HASH_SIZE];
    for (group, digits) in out.chunks_mut(4).enumerate() {
        let first = group * 21 % 30;
        let [high, middle, low] = match group {
            10 => [0, hash[31], hash[30]],
            _ => [hash[first], hash[(first + 10) % 30], hash[(first + 20) % 30]],
        };
        let mut bits = u32::from(high) << 16 | u32::from(middle) << 8 | u32::from(low);
        for digit in digits {
            *digit = DIGITS[(bits & 63) as usize];
            bits >>= 6;
        }
    }
    out
}

fn xor<const N: usize>(bytes: &[u8; N], mask: &[u8; N]) -> [u8; N] {
    std::array::from_fn(|index| bytes[index] ^ mask[index])
}

/// Compares in a time that does not depend on the bytes.
fn is_equal(found: &[u8], expected: &[u8]) -> bool {
    let differences = found.iter().zip(expected).fold(0, |bits, (found, expected)| bits | (found ^ expected));
    found.len() == expected.len() && std::hint::black_box(differences) == 0
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}
