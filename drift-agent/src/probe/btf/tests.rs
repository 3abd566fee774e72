use super::*;

/// Builds BTF by hand: types are given as words, strings by name.
pub(super) struct Builder {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Where its strings are counted from.
    before: usize,
}

impl Builder {
    pub(super) fn new() -> Self {
        Builder {
            types: Vec::new(),
            strings: vec![0],
            before: 0,
        }
    }

    /// A module's.
    pub(super) fn continues(kernel: &Builder) -> Self {
        Builder {
            types: Vec::new(),
            strings: Vec::new(),
            before: kernel.strings.len(),
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = (self.before + self.strings.len()) as u32;
        self.strings.extend_from_slice(name.as_bytes());
        self.strings.push(0);
        at
    }

    pub(super) fn words(&mut self, words: &[u32]) {
        for word in words {
            self.types.extend_from_slice(&word.to_le_bytes());
        }
    }

    pub(super) fn int(&mut self, size: u32) {
        let name = self.name("int");
        self.words(&[name, INT << 24, size, size * 8]);
    }

    pub(super) fn composite(
        &mut self,
        kind: u32,
        name: &str,
        flag: bool,
        members: &[(&str, u32, u32)],
    ) {
        let name = self.name(name);
        let info = kind << 24 | members.len() as u32 | u32::from(flag) << 31;
        self.words(&[name, info, 64]);
        for (member, id, position) in members {
            let member = self.name(member);
            self.words(&[member, *id, *position]);
        }
    }

    fn pointer(&mut self, to: u32) {
        self.words(&[0, PTR << 24, to]);
    }

    /// Two types: the prototype, and the function that has it.
    fn function(&mut self, name: &str, prototype: u32, returns: u32, parameters: &[(&str, u32)]) {
        self.words(&[0, FUNC_PROTO << 24 | parameters.len() as u32, returns]);
        for (parameter, id) in parameters {
            let parameter = self.name(parameter);
            self.words(&[parameter, *id]);
        }
        let name = self.name(name);
        self.words(&[name, FUNC << 24, prototype]);
    }

    pub(super) fn bytes(&self, header: u32) -> Vec<u8> {
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [
            header,
            0,
            self.types.len() as u32,
            self.types.len() as u32,
            self.strings.len() as u32,
        ] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(header as usize, 0);
        bytes.extend_from_slice(&self.types);
        bytes.extend_from_slice(&self.strings);
        bytes
    }
}

/// 1: int of 4 bytes; 2: nameless union {inner: 1}; 3: struct outer {_: 2 at 8, plain: 1 at 16, bits: 1 wide 3}.
fn sample() -> Builder {
    let mut builder = Builder::new();
    builder.int(4);
    builder.composite(UNION, "", false, &[("inner", 1, 0)]);
    builder.composite(
        STRUCT,
        "outer",
        true,
        &[("", 2, 64), ("plain", 1, 128), ("bits", 1, 3 << 24 | 160)],
    );
    builder
}

#[test]
fn members_are_found_also_inside_nameless_unions() {
    let bytes = sample().bytes(24);
    let btf = Btf::parse(&bytes).unwrap();
    assert_eq!(btf.member("outer", "plain", 4).unwrap().offset, 16);
    assert_eq!(btf.member("outer", "inner", 4).unwrap().offset, 8);
}

/// B102: a newer kernel's header is longer than this one, or a module's information is taken for the kernel's
/// (`a_modules_own_information_is_not_taken_for_the_kernels`).
#[test]
fn a_longer_header_is_accepted() {
    for length in [24, 28, 32, 40, 4096] {
        let bytes = sample().bytes(length);
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.member("outer", "plain", 4).unwrap().offset, 16);
        assert!(matches!(
            btf.member("outer", "gone", 4),
            Err(BtfError::NoMember { .. })
        ));
    }
}

#[test]
fn what_is_not_exactly_right_is_refused_with_a_sentence() {
    let bytes = sample().bytes(24);
    let btf = Btf::parse(&bytes).unwrap();
    for (path, size, expected) in [
        (
            "gone",
            4,
            "struct `outer` of this kernel has no member `gone`",
        ),
        (
            "plain",
            8,
            "member `plain` of struct `outer` has 4 bytes in this kernel; 8 were expected",
        ),
        ("bits", 4, "member `bits` of struct `outer` is a bit field"),
        (
            "plain.deeper",
            4,
            "struct `outer` of this kernel has no member `plain.deeper`",
        ),
    ] {
        assert_eq!(
            btf.member("outer", path, size).unwrap_err().to_string(),
            expected
        );
    }
    assert_eq!(
        btf.member("nobody", "x", 4).unwrap_err().to_string(),
        "the kernel's BTF has no struct `nobody`"
    );
}

#[test]
fn two_structs_of_one_name_are_refused() {
    let mut builder = sample();
    builder.composite(STRUCT, "outer", false, &[("plain", 1, 0)]);
    let bytes = builder.bytes(24);
    let btf = Btf::parse(&bytes).unwrap();
    assert_eq!(
        btf.member("outer", "plain", 4).unwrap_err(),
        BtfError::Ambiguous {
            name: "outer".into(),
            count: 2
        }
    );
}

#[test]
fn every_cut_and_every_flipped_byte_ends_in_a_verdict() {
    let bytes = sample().bytes(24);
    for length in 0..bytes.len() {
        if let Ok(btf) = Btf::parse(&bytes[..length]) {
            let _verdict = btf.member("outer", "inner", 4);
        }
    }
    for at in 0..bytes.len() {
        for value in [0x00, 0x01, 0x7f, 0xff] {
            let mut mangled = bytes.clone();
            mangled[at] = value;
            if let Ok(btf) = Btf::parse(&mangled) {
                let _verdict = btf.member("outer", "inner", 4);
            }
        }
    }
}

/// 1: int; 2: struct file; 3: a pointer to it; 4: struct holder {file: 3 at 8}; 5: a pointer to it; 6, 7: `early(int a, file *file) -> int`;
/// 8, 9: `late(holder *h) -> file *`; 10, 11: `by_value(file f, int a) -> void`.
fn functions() -> Builder {
    let mut builder = Builder::new();
    builder.int(4);
    builder.composite(STRUCT, "file", false, &[("x", 1, 0)]);
    builder.pointer(2);
    builder.composite(
        STRUCT,
        "holder",
        false,
        &[("file", 3, 64), ("number", 1, 128)],
    );
    builder.pointer(4);
    builder.function("early", 6, 1, &[("a", 1), ("file", 3)]);
    builder.function("late", 8, 3, &[("h", 5)]);
    builder.function("by_value", 10, 0, &[("f", 2), ("a", 1)]);
    builder
}

#[test]
fn a_parameter_is_found_by_its_name_in_the_list_or_in_the_struct_that_has_taken_it_in() {
    let bytes = functions().bytes(24);
    let btf = Btf::parse(&bytes).unwrap();
    let early = btf.function("early").unwrap();
    assert_eq!(early.count(), 2);
    assert_eq!(early.parameter("file", Some("file")), Ok(Place::Listed(1)));
    assert_eq!(early.parameter("a", None), Ok(Place::Listed(0)));
    assert_eq!(early.returns_wide(), Ok(false));
    let late = btf.function("late").unwrap();
    let Ok(Place::InStruct(member)) = late.parameter("file", Some("file")) else {
        panic!("not in the struct");
    };
    assert_eq!(member.offset, 8);
    assert_eq!(late.returns_wide(), Ok(true));
}

#[test]
fn a_function_that_is_not_exactly_as_expected_is_refused_with_a_sentence() {
    let mut builder = functions();
    builder.function("twice", 12, 0, &[]);
    builder.function("twice", 14, 0, &[("a", 1)]);
    let bytes = builder.bytes(24);
    let btf = Btf::parse(&bytes).unwrap();
    let refused = |name: &str| btf.function(name).unwrap_err().to_string();
    assert_eq!(
        refused("nothing"),
        "this kernel has no function `nothing`, or has it only as a part of others"
    );
    assert_eq!(
        refused("twice"),
        "the kernel's BTF has 2 different functions `twice`"
    );
    assert_eq!(
        refused("by_value"),
        "function `by_value` of this kernel has parameters that take more places than can be read"
    );
    let early = btf.function("early").unwrap();
    let wrong = |name: &str, to| early.parameter(name, to).unwrap_err().to_string();
    assert_eq!(
        wrong("dentry", Some("dentry")),
        "function `early` of this kernel has no parameter `dentry`"
    );
    assert_eq!(
        wrong("a", Some("file")),
        "parameter `a` of function `early` is not a pointer to struct `file` in this kernel"
    );
    assert_eq!(
        wrong("file", None),
        "parameter `file` of function `early` is not an int in this kernel"
    );
    let late = btf.function("late").unwrap();
    assert_eq!(
        late.parameter("number", Some("file")).unwrap_err(),
        BtfError::Size {
            name: "holder".into(),
            member: "number".into(),
            found: 4,
            expected: 8
        }
    );
}

#[test]
fn a_modules_own_information_is_not_taken_for_the_kernels() {
    let mut builder = sample();
    builder.strings[0] = b'x';
    assert_eq!(
        Btf::parse(&builder.bytes(24)).unwrap_err().to_string(),
        "this BTF is a module's and continues that of the kernel, which is needed instead"
    );
}

#[test]
fn a_member_that_reaches_beyond_its_struct_is_refused() {
    let mut builder = Builder::new();
    builder.int(4);
    // The struct has 64 bytes.
    builder.composite(
        STRUCT,
        "outer",
        false,
        &[("last", 1, 60 * 8), ("beyond", 1, 61 * 8)],
    );
    let bytes = builder.bytes(24);
    let btf = Btf::parse(&bytes).unwrap();
    assert_eq!(btf.member("outer", "last", 4).unwrap().offset, 60);
    assert_eq!(
        btf.member("outer", "beyond", 4).unwrap_err().to_string(),
        "member `beyond` of struct `outer` reaches beyond the struct's end"
    );
}

#[test]
fn a_member_that_is_not_read_as_a_whole_lies_within_its_struct_too() {
    // `inner` is a struct of 64 bytes, as `outer` is: it fits at the start alone.
    let mut builder = Builder::new();
    builder.int(4);
    builder.composite(STRUCT, "inner", false, &[("x", 1, 0)]);
    builder.composite(
        STRUCT,
        "outer",
        false,
        &[
            ("first", 2, 0),
            ("late", 2, 8),
            ("far", 2, 100 * 8),
            ("last", 2, 0xffff_fff8),
        ],
    );
    let bytes = builder.bytes(24);
    let btf = Btf::parse(&bytes).unwrap();
    assert_eq!(btf.start("outer", "first").unwrap().offset, 0);
    for member in ["late", "far", "last"] {
        assert_eq!(
            btf.start("outer", member).unwrap_err().to_string(),
            format!("member `{member}` of struct `outer` reaches beyond the struct's end")
        );
    }
    // A struct that says of itself that it has nothing in it holds nothing.
    let mut mangled = bytes.clone();
    let size = bytes
        .windows(4)
        .rposition(|word| word == 64_u32.to_le_bytes());
    mangled[size.unwrap()] = 0;
    let btf = Btf::parse(&mangled).unwrap();
    assert!(matches!(
        btf.start("outer", "first"),
        Err(BtfError::Outside { .. })
    ));
}

#[test]
fn a_struct_that_holds_itself_more_than_once_is_refused_at_once() {
    // Found by fuzzing: each level doubles the ways down.
    let mut builder = Builder::new();
    builder.int(4);
    builder.composite(
        STRUCT,
        "outer",
        false,
        &[("", 2, 0), ("", 2, 0), ("x", 1, 0)],
    );
    let bytes = builder.bytes(24);
    let btf = Btf::parse(&bytes).unwrap();
    assert!(matches!(
        btf.member("outer", "x", 4),
        Err(BtfError::Mangled { .. })
    ));
}
