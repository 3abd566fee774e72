//! The table: what each mutation makes of each target.
//!
//! `ok` is no drift at all, `-` does not apply; kinds that come together are joined by `+`.
//!
//! | column | what is declared at the path |
//! |---|---|
//! | file | content, mode 0640, owner and group |
//! | bare | content, nothing else |
//! | attributed | content, an extended attribute, an access list, no capabilities, no flags |
//! | dir | a directory, mode 0750, owner and group; a file that nobody declared is in it |
//! | exhaustive | the same, and nothing undeclared may be in it but `*.bak`, of which there is one |
//! | child | the file that is declared in the exhaustive directory, when the mutation is done to that directory |
//! | link | a link to `target`, which is beside it; owner and group |
//! | absent | nothing may be there |
//! | mask | a link to /dev/null |
//! | through | as `file`; reached through a link beside the folder it is in |
//! | yaml, json | a mapping, compared by what it says; nothing else |
//! | managed | one line among those that others have, as keys and values; nothing else |

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use drift_agent::compare::Drift;

/// The columns, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    File,
    Bare,
    Attributed,
    Dir,
    Exhaustive,
    /// Has no cell of its own: it is in the one of the exhaustive directory.
    Child,
    Link,
    Absent,
    Mask,
    Through,
    Yaml,
    Json,
    Managed,
}

impl Column {
    pub const ALL: [Column; 13] = [
        Column::File,
        Column::Bare,
        Column::Attributed,
        Column::Dir,
        Column::Exhaustive,
        Column::Child,
        Column::Link,
        Column::Absent,
        Column::Mask,
        Column::Through,
        Column::Yaml,
        Column::Json,
        Column::Managed,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Column::File => "file",
            Column::Bare => "bare",
            Column::Attributed => "attributed",
            Column::Dir => "dir",
            Column::Exhaustive => "exhaustive",
            Column::Child => "child",
            Column::Link => "link",
            Column::Absent => "absent",
            Column::Mask => "mask",
            Column::Through => "through",
            Column::Yaml => "yaml",
            Column::Json => "json",
            Column::Managed => "managed",
        }
    }
}

#[rustfmt::skip]
const TABLE: &str = "
mutation                                      | file               | bare               | attributed               | dir        | exhaustive      | child      | link              | absent     | mask        | through            | yaml               | json               | managed
# Nothing that counts.
untouched                                     | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | ok         | ok          | ok                 | ok                 | ok                 | ok
read                                          | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | -          | ok          | ok                 | ok                 | ok                 | ok
touched now                                   | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | -          | ok          | ok                 | ok                 | ok                 | ok
touched to 1970                               | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | -          | ok          | ok                 | ok                 | ok                 | ok
touched to 2100                               | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | -          | ok          | ok                 | ok                 | ok                 | ok
opened for writing and closed                 | ok                 | ok                 | ok                       | -          | -               | -          | -                 | -          | -           | ok                 | ok                 | ok                 | ok
rewritten with the same bytes                 | ok                 | ok                 | ok                       | -          | -               | -          | -                 | -          | -           | ok                 | ok                 | ok                 | ok
truncated and rewritten                       | ok                 | ok                 | ok                       | -          | -               | -          | -                 | -          | -           | ok                 | ok                 | ok                 | ok
changed and reverted                          | ok                 | ok                 | ok                       | -          | -               | -          | -                 | -          | -           | ok                 | ok                 | ok                 | ok
space reserved beyond the end                 | ok                 | ok                 | ok                       | -          | -               | -          | -                 | -          | -           | ok                 | ok                 | ok                 | ok
mode set to what it is                        | ok                 | ok                 | ok                       | ok         | ok              | ok         | -                 | -          | -           | ok                 | ok                 | ok                 | ok
owner set to what it is                       | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | -          | ok          | ok                 | ok                 | ok                 | ok
renamed away and back                         | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | -          | ok          | ok                 | ok                 | ok                 | ok
made and removed again                        | -                  | -                  | -                        | -          | -               | -          | -                 | ok         | -           | -                  | -                  | -                  | -
replaced by its twin                          | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | -          | ok          | ok                 | ok                 | ok                 | ok
exchanged with its twin                       | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | -          | ok          | ok                 | ok                 | ok                 | ok
removed and made anew                         | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | -          | ok          | ok                 | ok                 | ok                 | ok
hard link added                               | hardlinked         | hardlinked         | hardlinked               | -          | -               | -          | ok                | -          | ok          | hardlinked         | hardlinked         | hardlinked         | hardlinked
names like it made beside it                  | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | ok         | ok          | ok                 | ok                 | ok                 | ok
# Bytes.
appended                                      | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | ok
put in front                                  | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content-equivalent | content            | ok
overwritten with as many bytes                | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | ok
overwritten, and its times put back           | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | ok
one bit turned                                | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | ok
cut in half                                   | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | ok
emptied                                       | content            | content            | content                  | ok         | ok              | missing    | -                 | -          | -           | content            | content            | content            | content
extended by zeros                             | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | ok
hole punched                                  | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | ok
made a sparse giant                           | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | content
line ends made CRLF                           | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content-equivalent | content-equivalent | ok
one line end made CRLF                        | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content-equivalent | content-equivalent | ok
final line end dropped                        | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content-equivalent | content-equivalent | ok
final line end doubled                        | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content-equivalent | content-equivalent | ok
byte order mark added                         | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content-equivalent | content            | ok
made UTF-16                                   | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | content
blanks made tabs                              | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | content
blank at the end of a line                    | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content-equivalent | content-equivalent | ok
NUL put in                                    | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | ok
two lines exchanged                           | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content-equivalent | content-equivalent | ok
one letter made upper case                    | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | ok
written through a hard link                   | content+hardlinked | content+hardlinked | content+hardlinked       | -          | -               | -          | -                 | -          | -           | content+hardlinked | content+hardlinked | content+hardlinked | content+hardlinked
written through a symbolic link               | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | content
written through a mapping                     | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | ok
another file copied into it                   | content            | content            | content                  | -          | -               | -          | -                 | -          | -           | content            | content            | content            | content
edited in place by sed                        | content            | content            | content+xattr            | -          | -               | -          | -                 | -          | -           | content            | content            | content            | content
# Attributes.
owner's write bit taken                       | mode               | ok                 | xattr                    | mode       | mode            | ok         | -                 | -          | -           | mode               | ok                 | ok                 | ok
group's write bit given                       | mode               | ok                 | xattr                    | mode       | mode            | ok         | -                 | -          | -           | mode               | ok                 | ok                 | ok
others' read bit given                        | mode               | ok                 | xattr                    | mode       | mode            | ok         | -                 | -          | -           | mode               | ok                 | ok                 | ok
setuid given                                  | mode               | ok                 | ok                       | mode       | mode            | ok         | -                 | -          | -           | mode               | ok                 | ok                 | ok
setgid given                                  | mode               | ok                 | ok                       | mode       | mode            | ok         | -                 | -          | -           | mode               | ok                 | ok                 | ok
sticky given                                  | mode               | ok                 | ok                       | mode       | mode            | ok         | -                 | -          | -           | mode               | ok                 | ok                 | ok
every bit taken                               | mode               | ok                 | xattr                    | mode       | mode            | ok         | -                 | -          | -           | mode               | ok                 | ok                 | ok
every bit given                               | mode               | ok                 | xattr                    | mode       | mode            | ok         | -                 | -          | -           | mode               | ok                 | ok                 | ok
user changed                                  | owner              | ok                 | ok                       | owner      | owner           | ok         | owner             | -          | ok          | owner              | ok                 | ok                 | ok
group changed                                 | owner              | ok                 | ok                       | owner      | owner           | ok         | owner             | -          | ok          | owner              | ok                 | ok                 | ok
user and mode changed                         | mode+owner         | ok                 | xattr                    | mode+owner | mode+owner      | ok         | -                 | -          | -           | mode+owner         | ok                 | ok                 | ok
setuid given, then taken by a change of owner | owner              | ok                 | ok                       | -          | -               | -          | -                 | -          | -           | owner              | ok                 | ok                 | ok
appended, mode and group changed              | content+mode+owner | content            | content+xattr            | -          | -               | -          | -                 | -          | -           | content+mode+owner | content            | content            | ok
extended attribute set                        | ok                 | ok                 | xattr                    | ok         | ok              | ok         | -                 | -          | -           | ok                 | ok                 | ok                 | ok
access list set                               | ok                 | ok                 | xattr                    | ok         | ok              | ok         | -                 | -          | -           | ok                 | ok                 | ok                 | ok
access list that gives the group more         | mode               | ok                 | xattr                    | mode       | mode            | ok         | -                 | -          | -           | mode               | ok                 | ok                 | ok
default access list set                       | -                  | -                  | -                        | ok         | ok              | ok         | -                 | -          | -           | -                  | -                  | -                  | -
capability set                                | ok                 | ok                 | xattr                    | -          | -               | -          | -                 | -          | -           | ok                 | ok                 | ok                 | ok
made immutable                                | ok                 | ok                 | xattr                    | ok         | ok              | ok         | -                 | -          | -           | ok                 | ok                 | ok                 | ok
made append-only                              | ok                 | ok                 | xattr                    | ok         | ok              | ok         | -                 | -          | -           | ok                 | ok                 | ok                 | ok
# What stands there.
removed                                       | missing            | missing            | missing                  | missing    | missing         | missing    | missing           | -          | missing     | missing            | missing            | missing            | missing
renamed away                                  | missing            | missing            | missing                  | missing    | missing         | missing    | missing           | -          | missing     | missing            | missing            | missing            | missing
replaced by another file                      | content+mode       | content            | content+xattr            | type       | type            | relocated  | type              | unexpected | type        | content+mode       | content            | content            | content
replaced by an empty file                     | content            | content            | content+xattr            | type       | type            | relocated  | type              | unexpected | type        | content            | content            | content            | content
replaced by its bytes in another mode         | mode               | ok                 | xattr                    | -          | -               | -          | -                 | -          | -           | mode               | ok                 | ok                 | ok
replaced by a hard link to another file       | content+hardlinked | content+hardlinked | content+xattr+hardlinked | type       | type            | relocated  | type              | unexpected | type        | content+hardlinked | content+hardlinked | content+hardlinked | content+hardlinked
replaced by an empty directory                | type               | type               | type                     | ok         | ok              | missing    | type              | unexpected | type        | type               | type               | type               | type
replaced by a full directory                  | type               | type               | type                     | ok         | unexpected      | missing    | type              | unexpected | type        | type               | type               | type               | type
replaced by a directory in another mode       | type               | type               | type                     | mode       | mode            | missing    | type              | unexpected | type        | type               | type               | type               | type
replaced by a FIFO                            | type               | type               | type                     | type       | type            | relocated  | type              | unexpected | type        | type               | type               | type               | type
replaced by a socket                          | type               | type               | type                     | type       | type            | relocated  | type              | unexpected | type        | type               | type               | type               | type
replaced by a character device                | type               | type               | type                     | type       | type            | relocated  | type              | unexpected | type        | type               | type               | type               | type
replaced by a block device                    | type               | type               | type                     | type       | type            | relocated  | type              | unexpected | type        | type               | type               | type               | type
replaced by a link to its twin                | type               | type               | type                     | type       | type            | relocated  | link-target       | -          | link-target | type               | type               | type               | type
replaced by a link to a file                  | type               | type               | type                     | type       | type            | relocated  | link-target       | unexpected | link-target | type               | type               | type               | type
replaced by a link to a directory             | type               | type               | type                     | type       | type            | relocated  | link-target       | unexpected | link-target | type               | type               | type               | type
replaced by a link to /dev/null               | type               | type               | type                     | type       | type            | relocated  | link-target       | unexpected | ok          | type               | type               | type               | type
replaced by a dangling link                   | type               | type               | type                     | type       | type            | relocated  | link-target       | unexpected | link-target | type               | type               | type               | type
replaced by a link to itself                  | type               | type               | type                     | type       | type            | relocated  | link-target       | unexpected | link-target | type               | type               | type               | type
exchanged with another file                   | content+mode       | content            | content+xattr            | type       | type            | relocated  | type              | -          | type        | content+mode       | content            | content            | content
exchanged with a directory                    | type               | type               | type                     | ok         | ok              | missing    | type              | -          | type        | type               | type               | type               | type
# What a link holds.
retargeted to the same text                   | -                  | -                  | -                        | -          | -               | -          | ok                | -          | ok          | -                  | -                  | -                  | -
retargeted                                    | -                  | -                  | -                        | -          | -               | -          | link-target       | -          | link-target | -                  | -                  | -                  | -
retargeted to the same place, spelt otherwise | -                  | -                  | -                        | -          | -               | -          | link-target       | -          | link-target | -                  | -                  | -                  | -
retargeted to the same place, absolutely      | -                  | -                  | -                        | -          | -               | -          | link-target       | -          | -           | -                  | -                  | -                  | -
retargeted to its text with a slash           | -                  | -                  | -                        | -          | -               | -          | link-target       | -          | link-target | -                  | -                  | -                  | -
retargeted to a text that is not UTF-8        | -                  | -                  | -                        | -          | -               | -          | link-target       | -          | link-target | -                  | -                  | -                  | -
retargeted to the longest text                | -                  | -                  | -                        | -          | -               | -          | link-target       | -          | link-target | -                  | -                  | -                  | -
retargeted, and its owner changed             | -                  | -                  | -                        | -          | -               | -          | owner+link-target | -          | link-target | -                  | -                  | -                  | -
its target written                            | -                  | -                  | -                        | -          | -               | -          | ok                | -          | -           | -                  | -                  | -                  | -
its target removed                            | -                  | -                  | -                        | -          | -               | -          | ok                | -          | -           | -                  | -                  | -                  | -
# What is in a directory.
file put in                                   | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
hidden file put in                            | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
name with a line break put in                 | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
name that is not UTF-8 put in                 | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
longest name put in                           | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
child's name in upper case put in             | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
editor's copy of the child put in             | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
directory put in                              | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
link put in                                   | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
FIFO put in                                   | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
hard link of the child put in                 | -                  | -                  | -                        | -          | unexpected      | hardlinked | -                 | -          | -           | -                  | -                  | -                  | -
thousand files put in                         | -                  | -                  | -                        | ok         | unexpected      | ok         | -                 | -          | -           | -                  | -                  | -                  | -
ignored file put in                           | -                  | -                  | -                        | ok         | ok              | ok         | -                 | -          | -           | -                  | -                  | -                  | -
ignored directory put in                      | -                  | -                  | -                        | ok         | ok              | ok         | -                 | -          | -           | -                  | -                  | -                  | -
ignored file removed                          | -                  | -                  | -                        | -          | ok              | ok         | -                 | -          | -           | -                  | -                  | -                  | -
file put in and taken out                     | -                  | -                  | -                        | ok         | ok              | ok         | -                 | -          | -           | -                  | -                  | -                  | -
file put in, and the mode changed             | -                  | -                  | -                        | mode       | unexpected+mode | ok         | -                 | -          | -           | -                  | -                  | -                  | -
child changed                                 | -                  | -                  | -                        | -          | ok              | content    | -                 | -          | -           | -                  | -                  | -                  | -
child removed                                 | -                  | -                  | -                        | -          | ok              | missing    | -                 | -          | -           | -                  | -                  | -                  | -
child renamed                                 | -                  | -                  | -                        | -          | unexpected      | missing    | -                 | -          | -           | -                  | -                  | -                  | -
child replaced by a directory                 | -                  | -                  | -                        | -          | ok              | type       | -                 | -          | -           | -                  | -                  | -                  | -
child replaced by a dangling link             | -                  | -                  | -                        | -          | ok              | type       | -                 | -          | -           | -                  | -                  | -                  | -
# The way to it.
parent renamed away                           | missing            | missing            | missing                  | missing    | missing         | missing    | missing           | ok         | missing     | missing            | missing            | missing            | missing
parent renamed away and back                  | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | ok         | ok          | ok                 | ok                 | ok                 | ok
parent removed                                | missing            | missing            | missing                  | missing    | missing         | missing    | missing           | ok         | missing     | missing            | missing            | missing            | missing
parent replaced by its twin                   | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | ok         | ok          | ok                 | ok                 | ok                 | ok
parent exchanged with an empty directory      | missing            | missing            | missing                  | missing    | missing         | missing    | missing           | ok         | missing     | missing            | missing            | missing            | missing
parent exchanged with another tree            | content+mode       | content            | content+xattr            | type       | type            | relocated  | type              | unexpected | type        | content+mode       | content            | content            | content
parent replaced by a link to it               | relocated          | relocated          | relocated                | relocated  | relocated       | relocated  | relocated         | relocated  | relocated   | relocated          | relocated          | relocated          | relocated
parent replaced by a dangling link            | relocated          | relocated          | relocated                | relocated  | relocated       | relocated  | relocated         | relocated  | relocated   | relocated          | relocated          | relocated          | relocated
parent replaced by a link to itself           | relocated          | relocated          | relocated                | relocated  | relocated       | relocated  | relocated         | relocated  | relocated   | relocated          | relocated          | relocated          | relocated
parent replaced by a file                     | relocated          | relocated          | relocated                | relocated  | relocated       | relocated  | relocated         | relocated  | relocated   | relocated          | relocated          | relocated          | relocated
parent replaced by a FIFO                     | relocated          | relocated          | relocated                | relocated  | relocated       | relocated  | relocated         | relocated  | relocated   | relocated          | relocated          | relocated          | relocated
parent of the parent replaced by a link       | relocated          | relocated          | relocated                | relocated  | relocated       | relocated  | relocated         | relocated  | relocated   | relocated          | relocated          | relocated          | relocated
parent closed to all                          | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | ok         | ok          | ok                 | ok                 | ok                 | ok
# Links on the way.
link on the way replaced by its twin          | -                  | -                  | -                        | -          | -               | -          | -                 | -          | -           | ok                 | -                  | -                  | -
link on the way retargeted                    | -                  | -                  | -                        | -          | -               | -          | -                 | -          | -           | relocated          | -                  | -                  | -
link on the way spelt otherwise               | -                  | -                  | -                        | -          | -               | -          | -                 | -          | -           | relocated          | -                  | -                  | -
link on the way removed                       | -                  | -                  | -                        | -          | -               | -          | -                 | -          | -           | relocated          | -                  | -                  | -
link on the way replaced by the directory     | -                  | -                  | -                        | -          | -               | -          | -                 | -          | -           | relocated          | -                  | -                  | -
# Mounts.
twin bound over it                            | ok                 | ok                 | ok                       | ok         | ok              | ok         | -                 | -          | -           | ok                 | ok                 | ok                 | ok
bound over itself, read-only                  | ok                 | ok                 | ok                       | ok         | ok              | ok         | -                 | -          | -           | ok                 | ok                 | ok                 | ok
another file bound over it                    | content+mode       | content            | content+xattr            | -          | -               | -          | -                 | -          | -           | content+mode       | content            | content            | content
/dev/null bound over it                       | type               | type               | type                     | -          | -               | -          | -                 | -          | -           | type               | type               | type               | type
another directory bound over it               | -                  | -                  | -                        | mode       | unexpected+mode | missing    | -                 | -          | -           | -                  | -                  | -                  | -
tmpfs mounted over it                         | -                  | -                  | -                        | mode       | mode            | missing    | -                 | -          | -           | -                  | -                  | -                  | -
tmpfs mounted over the parent                 | missing            | missing            | missing                  | missing    | missing         | missing    | missing           | ok         | missing     | missing            | missing            | missing            | missing
twin bound over the parent                    | ok                 | ok                 | ok                       | ok         | ok              | ok         | ok                | ok         | ok          | ok                 | ok                 | ok                 | ok
another tree bound over the parent            | content+mode       | content            | content+xattr            | type       | type            | relocated  | type              | unexpected | type        | content+mode       | content            | content            | content
";

/// Where file systems differ: (file system, mutation, column, what is right there).
const DIFFERENCES: &[(&str, &str, Column, &str)] = &[];

/// Mutations that mount something else over the path, or over its parent.
const HIDING: &[&str] = &[
    "twin bound over it",
    "another file bound over it",
    "/dev/null bound over it",
    "another directory bound over it",
    "tmpfs mounted over it",
    "tmpfs mounted over the parent",
    "twin bound over the parent",
    "another tree bound over the parent",
];

/// One line of the table.
#[derive(Debug)]
pub struct Row {
    pub mutation: &'static str,
    cells: Vec<&'static str>,
}

impl Row {
    /// What is right for who has seen the path before the mutation: what is mounted over it makes it lead elsewhere, whatever that holds.
    pub fn expected_of_a_watcher(&self, file_system: &str, column: Column) -> Option<&'static str> {
        let expected = self.expected(file_system, column)?;
        Some(if HIDING.contains(&self.mutation) {
            "relocated"
        } else {
            expected
        })
    }

    /// The kinds of drift that are right, sorted and joined by `+`, `ok` for none; nothing where the mutation does not apply.
    pub fn expected(&self, file_system: &str, column: Column) -> Option<&'static str> {
        let differs = DIFFERENCES.iter().find(|(of, mutation, at, _)| {
            *of == file_system && *mutation == self.mutation && *at == column
        });
        let usual = self.cells.get(column as usize).copied();
        differs
            .map(|(.., right)| *right)
            .or(usual)
            .filter(|cell| *cell != "-")
    }
}

/// The table, if it is one: every cell is `ok`, `-` or known kinds in their order; no mutation comes twice.
pub fn rows() -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut head = None;
    for line in TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let mut cells = line.split('|').map(str::trim);
        let mutation = cells.next().context("an empty line")?;
        let cells: Vec<&str> = cells.collect();
        if head.is_none() {
            ensure!(
                cells == Column::ALL.map(Column::name),
                "the columns: {line}"
            );
            head = Some(mutation);
            continue;
        }
        ensure!(cells.len() == Column::ALL.len(), "{mutation}: {cells:?}");
        for cell in &cells {
            ensure!(is_cell(cell), "{mutation}: {cell}");
        }
        rows.push(Row { mutation, cells });
    }
    let names: BTreeSet<&str> = rows.iter().map(|row| row.mutation).collect();
    ensure!(names.len() == rows.len(), "a mutation comes twice");
    for (_, mutation, _, cell) in DIFFERENCES {
        ensure!(
            names.contains(mutation) && is_cell(cell),
            "{mutation}: {cell}"
        );
    }
    Ok(rows)
}

fn is_cell(cell: &str) -> bool {
    let known = || {
        let place = |kind: &str| Drift::ALL.iter().position(|drift| drift.name() == kind);
        let places: Option<Vec<usize>> = cell.split('+').map(place).collect();
        places.is_some_and(|places| places.is_sorted_by(|a, b| a < b))
    };
    cell == "ok" || cell == "-" || known()
}
