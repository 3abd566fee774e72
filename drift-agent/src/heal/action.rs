//! What healing would do, as data.

/// One action on one declared path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put a new file with the declared content in place of whatever stands there.
    Replace,
    /// The content is right: set owner and mode on the file that is there.
    Attributes,
}
