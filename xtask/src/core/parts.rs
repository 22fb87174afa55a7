// SPDX-License-Identifier: MIT OR Apache-2.0
//! What numbers were made of, beside their scenario. Whoever goes on with a run, puts runs
//! together, compares them or follows them over time asks here which parts differ, and says
//! of each what that means there: a part that is new here is one everywhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// All that boots were made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// QEMU's version.
    pub qemu: String,
    /// The form of its command line.
    pub command: u32,
    /// What runs the guest by the wall clock; `None`: virtual time, where it is no part.
    pub accelerator: Option<String>,
    /// The key of PID 1.
    pub init: String,
    /// The keys of images of user space, by name (`udev (bookworm)`).
    pub images: BTreeMap<String, String>,
    /// By name (`6.1+parallel-shutdown`); a series that came with `--series` is called
    /// `under test` whatever it holds, since it is what is compared.
    pub kernels: BTreeMap<String, Kernel>,
}

/// A kernel that was booted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The source with its exact version.
    pub source: String,
    /// The artifact's key.
    pub key: String,
    /// The guest modules' key.
    pub modules: String,
    /// Its compiler; `None`: not recorded.
    pub compiler: Option<String>,
    /// blake3 of its bzImage; `None`: not recorded.
    pub image: Option<String>,
}

/// One part; those of a kernel with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// QEMU's version.
    Qemu,
    /// The form of its command line.
    Command,
    /// What runs the guest.
    Accelerator,
    /// PID 1.
    Init,
    /// An image of user space.
    UserSpace(&'a str),
    /// A kernel that only one side has.
    Kernel(&'a str),
    /// Where its source came from.
    Source(&'a str),
    /// What compiled it.
    Compiler(&'a str),
    /// It was built otherwise, of the same source.
    Build(&'a str),
    /// Its bytes, although it was built alike.
    Image(&'a str),
    /// The guest's modules, although they are for the same kernel.
    Modules(&'a str),
}

impl fmt::Display for Part<'_> {
    /// `PID 1`, `compiler of kernel 6.1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Qemu => f.write_str("QEMU"),
            Self::Command => f.write_str("QEMU's command line"),
            Self::Accelerator => f.write_str("accelerator"),
            Self::Init => f.write_str("PID 1"),
            Self::UserSpace(name) => write!(f, "user space {name}"),
            Self::Kernel(name) => write!(f, "kernel {name}"),
            Self::Source(name) => write!(f, "source of kernel {name}"),
            Self::Compiler(name) => write!(f, "compiler of kernel {name}"),
            Self::Build(name) => write!(f, "build of kernel {name}"),
            Self::Image(name) => write!(f, "image of kernel {name}"),
            Self::Modules(name) => write!(f, "modules of kernel {name}"),
        }
    }
}

/// A part that is not the same on two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// Which.
    pub part: Part<'a>,
    /// What the one side has; `None`: nothing, or it was not recorded.
    pub was: Option<String>,
    /// What the other has.
    pub is: Option<String>,
}

impl Difference<'_> {
    /// Both sides, where both have the part.
    pub fn both(&self) -> Option<(&str, &str)> {
        Some((self.was.as_deref()?, self.is.as_deref()?))
    }
}

impl Parts {
    /// What `other` has otherwise. What one side did not record is not taken for a difference,
    /// but for the compiler of a kernel that is another.
    pub fn differing<'a>(&'a self, other: &'a Self) -> Vec<Difference<'a>> {
        let mut all = Vec::new();
        let mut put = |part, was: Option<&str>, is: Option<&str>| {
            let [was, is] = [was, is].map(|side| side.map(str::to_owned));
            all.push(Difference { part, was, is });
        };
        if self.qemu != other.qemu {
            put(Part::Qemu, Some(&self.qemu), Some(&other.qemu));
        }
        if self.command != other.command {
            let forms = [self.command, other.command].map(|form| form.to_string());
            put(Part::Command, Some(&forms[0]), Some(&forms[1]));
        }
        if let (Some(was), Some(is)) = (&self.accelerator, &other.accelerator)
            && was != is
        {
            put(Part::Accelerator, Some(was), Some(is));
        }
        if self.init != other.init {
            put(Part::Init, Some(&self.init), Some(&other.init));
        }
        for (name, was, is) in pairs(&self.images, &other.images) {
            if was != is {
                let [was, is] = [was, is].map(|key| key.map(String::as_str));
                put(Part::UserSpace(name), was, is);
            }
        }
        for (name, was, is) in pairs(&self.kernels, &other.kernels) {
            match (was, is) {
                (Some(was), Some(is)) => was.differing(name, is, &mut put),
                _ => {
                    let [was, is] = [was, is].map(|k| k.map(|k| k.key.as_str()));
                    put(Part::Kernel(name), was, is);
                }
            }
        }
        all
    }
}

impl Kernel {
    fn differing<'a>(
        &self,
        name: &'a str,
        other: &Self,
        put: &mut impl FnMut(Part<'a>, Option<&str>, Option<&str>),
    ) {
        let another = self.key != other.key;
        let (was, is) = (self.compiler.as_deref(), other.compiler.as_deref());
        let recorded = was.is_some() && is.is_some();
        if (recorded && was != is) || (another && !recorded) {
            put(Part::Compiler(name), was, is);
        }
        if self.source != other.source {
            put(Part::Source(name), Some(&self.source), Some(&other.source));
        } else if another {
            put(Part::Build(name), Some(&self.key), Some(&other.key));
        }
        // Another kernel has other bytes, and other modules: that says nothing more.
        if another {
            return;
        }
        if let (Some(was), Some(is)) = (&self.image, &other.image)
            && was != is
        {
            put(Part::Image(name), Some(was), Some(is));
        }
        if self.modules != other.modules {
            put(
                Part::Modules(name),
                Some(&self.modules),
                Some(&other.modules),
            );
        }
    }
}

/// What either map has, by name.
fn pairs<'a, T>(
    a: &'a BTreeMap<String, T>,
    b: &'a BTreeMap<String, T>,
) -> impl Iterator<Item = (&'a str, Option<&'a T>, Option<&'a T>)> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names
        .into_iter()
        .map(|name| (name.as_str(), a.get(name), b.get(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        let kernel = Kernel {
            source: "linux 6.1.1".into(),
            key: "k".into(),
            modules: "m".into(),
            compiler: Some("gcc 12".into()),
            image: Some("i".into()),
        };
        Parts {
            qemu: "10.0.2".into(),
            command: 1,
            accelerator: Some("KVM".into()),
            init: "i".into(),
            images: [("udev (bookworm)".to_owned(), "u".to_owned())].into(),
            kernels: [("6.1".to_owned(), kernel)].into(),
        }
    }

    /// Every field that is changed is told, under a name of its own.
    #[test]
    fn no_part_differs_unseen() {
        type Change = fn(&mut Parts);
        let cases: [(&str, Change); 11] = [
            ("QEMU", |p| p.qemu = "x".into()),
            ("QEMU's command line", |p| p.command = 2),
            ("accelerator", |p| p.accelerator = Some("TCG".into())),
            ("PID 1", |p| p.init = "x".into()),
            ("user space udev (bookworm)", |p| {
                p.images.insert("udev (bookworm)".into(), "x".into());
            }),
            ("user space udev (bookworm)", |p| p.images.clear()),
            ("source of kernel 6.1", |p| of(p).source = "x".into()),
            ("compiler of kernel 6.1", |p| {
                of(p).compiler = Some("x".into())
            }),
            ("build of kernel 6.1", |p| of(p).key = "x".into()),
            ("image of kernel 6.1", |p| of(p).image = Some("x".into())),
            ("modules of kernel 6.1", |p| of(p).modules = "x".into()),
        ];
        for (name, change) in cases {
            let mut other = parts();
            change(&mut other);
            let names = |a: &Parts, b: &Parts| -> Vec<String> {
                let all = a.differing(b);
                all.iter().map(|d| d.part.to_string()).collect()
            };
            assert_eq!(names(&parts(), &other), [name]);
            assert_eq!(names(&other, &parts()), [name]);
        }
        assert_eq!(parts().differing(&parts()), []);
    }

    fn of(parts: &mut Parts) -> &mut Kernel {
        parts.kernels.get_mut("6.1").unwrap()
    }

    /// Runs that were kept before something was recorded can be read, and are not refused.
    #[test]
    fn what_was_not_recorded_is_no_difference() {
        let mut old = parts();
        old.accelerator = None;
        of(&mut old).compiler = None;
        of(&mut old).image = None;
        assert_eq!(old.differing(&parts()), []);
        of(&mut old).key = "x".into();
        let (now, differs) = (parts(), |d: &Difference<'_>| d.part.to_string());
        let told: Vec<_> = old.differing(&now).iter().map(differs).collect();
        assert_eq!(told, ["compiler of kernel 6.1", "build of kernel 6.1"]);
    }

    #[test]
    fn a_kernel_of_one_side_is_one_difference() {
        let mut other = parts();
        let kernel = other.kernels.remove("6.1").unwrap();
        other.kernels.insert("6.12".into(), kernel);
        let was = parts();
        let told = was.differing(&other);
        assert_eq!(
            told.iter().map(|d| (d.part, d.both())).collect::<Vec<_>>(),
            [(Part::Kernel("6.1"), None), (Part::Kernel("6.12"), None)]
        );
    }
}
