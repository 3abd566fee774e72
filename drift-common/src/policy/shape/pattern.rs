//! Values that stand in several fields, and the patterns of texts.

use super::Value;
use crate::policy::LARGEST_CONTENT;

pub(super) const NAME: Value = Value::Text(NAME_PATTERN, 253);
pub(crate) const NAME_PATTERN: &str =
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$";
/// The same, where there are many of them: with a sentence of its own each would cost the API server more than it allows.
pub(super) const OBJECT: Value = Value::Text(
    "^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$",
    253,
);
/// As https://semver.org has it.
pub(super) const VERSION: Value = Value::Text(VERSION_PATTERN, 256);
pub(crate) const VERSION_PATTERN: &str = r"^(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$";
/// One spelling of each path: no component is empty, `.` or `..`.
pub(super) const ABSOLUTE: Value = Value::Text(
    r"^(/([^/.\x00][^/\x00]*|\.[^/.\x00][^/\x00]*|\.\.[^/\x00]+))+$",
    MOST_PATH,
);
pub(super) const BENEATH: Value = Value::Text(
    r"^([^/.\x00][^/\x00]*|\.[^/.\x00][^/\x00]*|\.\.[^/\x00]+)(/([^/.\x00][^/\x00]*|\.[^/.\x00][^/\x00]*|\.\.[^/\x00]+))*$",
    MOST_PATH,
);
pub(super) const BASE64: &str = r"^(\s*[A-Za-z0-9+/]\s*[A-Za-z0-9+/]\s*[A-Za-z0-9+/]\s*[A-Za-z0-9+/])*(\s*[A-Za-z0-9+/]\s*[AQgw](\s*=){0,2}|\s*[A-Za-z0-9+/]\s*[A-Za-z0-9+/]\s*[AEIMQUYcgkosw048](\s*=)?)?\s*$";
pub(super) const ANY: Value = Value::Text("", MOST_TEXT);
/// Names, patterns and other words: never long.
pub(super) const WORD: Value = Value::Text("", 4096);
pub(super) const POINTER: Value = Value::Text("^(#[0-9]*)?(/([^~]|~[01])*)?$", 4096);
pub(super) const POINTERS: Value = Value::List(&POINTER, 0, MOST_RULES);
pub(super) const PRINCIPAL: Value = Value::Scalar(
    r"^([0-9]{1,9}|[^\s:,/+0-9-][^\s:,/]*|[0-9]+[^\s:,/0-9][^\s:,/]*)$",
    256,
    0,
    u32::MAX - 1,
);
pub(super) const MOST_TEXT: u32 = 1 << 20;
pub(super) const MOST_PATH: u32 = 4095;
/// Rules of one comparison.
pub(super) const MOST_RULES: u32 = 1024;
/// Paths of one version. More fit into a file, and not into an object of a cluster.
pub(super) const MOST_PATHS: u32 = 10_000;

/// Sizes of 1 byte to 1 GiB ([`LARGEST_CONTENT`](crate::policy::LARGEST_CONTENT)): whoever knows nothing but this expression refuses what is larger in any unit.
pub(super) const SIZE: Value = Value::Scalar(
    concat!(
        "^0*(([1-9][0-9]{0,8}|10[0-6][0-9]{7}|107[0-2][0-9]{6}|1073[0-6][0-9]{5}|10737[0-3][0-9]{4}|1073740[0-9]{3}|1073741[0-7][0-9]{2}|10737418[0-1][0-9]|107374182[0-3]|1073741824)B?",
        "|([1-9][0-9]{0,5}|10[0-3][0-9]{4}|104[0-7][0-9]{3}|1048[0-4][0-9]{2}|10485[0-6][0-9]|104857[0-5]|1048576)Ki(B)?",
        "|([1-9][0-9]{0,2}|10[0-1][0-9]|102[0-3]|1024)Mi(B)?)$"
    ),
    32,
    1,
    LARGEST_CONTENT as u32,
);

pub(super) const UNIT: Value = Value::Text(
    r"^[A-Za-z0-9:_.\\@-]+\.(service|socket|timer|path|target)$",
    255,
);
