use super::*;

/// Builds BTF by hand: types are given as words, strings by name.
struct Builder {
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl Builder {
    fn new() -> Self {
        Builder {
            types: Vec::new(),
            strings: vec![0],
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend_from_slice(name.as_bytes());
        self.strings.push(0);
        at
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.types.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn int(&mut self, size: u32) {
        let name = self.name("int");
        self.words(&[name, INT << 24, size, size * 8]);
    }

    fn composite(&mut self, kind: u32, name: &str, flag: bool, members: &[(&str, u32, u32)]) {
        let name = self.name(name);
        let info = kind << 24 | members.len() as u32 | u32::from(flag) << 31;
        self.words(&[name, info, 64]);
        for (member, id, position) in members {
            let member = self.name(member);
            self.words(&[member, *id, *position]);
        }
    }

    fn bytes(&self, header: u32) -> Vec<u8> {
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

#[test]
fn a_longer_header_is_accepted() {
    let bytes = sample().bytes(40);
    let btf = Btf::parse(&bytes).unwrap();
    assert_eq!(btf.member("outer", "plain", 4).unwrap().offset, 16);
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
