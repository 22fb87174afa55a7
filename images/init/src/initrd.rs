// SPDX-License-Identifier: MIT OR Apache-2.0
//! The smallest initramfs: a cpio archive ("newc") with `/init` in it.

/// The archive, with `init` as its executable `/init`.
pub fn with_init(init: &[u8]) -> Vec<u8> {
    let mut archive = Vec::with_capacity(init.len() + 512);
    add(&mut archive, "init", 0o100_755, init);
    add(&mut archive, "TRAILER!!!", 0, &[]);
    archive
}

fn add(archive: &mut Vec<u8>, name: &str, mode: u32, content: &[u8]) {
    let (size, name_size) = (content.len() as u32, name.len() as u32 + 1);
    // inode, mode, uid, gid, links, time, size, device (2), special device (2), name, sum
    let fields = [1, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
    archive.extend_from_slice(b"070701");
    for field in fields {
        archive.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    pad(archive);
    archive.extend_from_slice(content);
    pad(archive);
}

/// Names and contents begin at multiples of four.
fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_laid_out_as_newc() {
        let archive = with_init(b"hello");
        assert_eq!(&archive[..6], b"070701");
        assert_eq!(&archive[14..22], b"000081ed", "mode");
        assert_eq!(&archive[54..62], b"00000005", "size");
        assert_eq!(&archive[94..102], b"00000005", "size of the name");
        assert_eq!(
            &archive[110..120],
            b"init\0\0hell",
            "name, padding, content"
        );
        assert_eq!(&archive[124..130], b"070701", "the trailer is aligned");
        assert_eq!(archive.len() % 4, 0);
    }
}
