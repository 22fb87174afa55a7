// SPDX-License-Identifier: GPL-2.0-or-later
//! What QEMU calls, and is asked.
//!
//! Arguments: `spec=FILE` (see [`crate::spec`]), `out=FILE` (see [`crate::out`]) and
//! `counting=on|off`; or `probe=on`, which says whether it can work, and ends QEMU. A profile needs a machine that counts instructions: its CPUs all run
//! in one thread. Marks alone may come from several threads, one at a time.

use std::{
    ffi::{c_uint, c_void},
    path::Path,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicPtr, Ordering},
    },
};

use qemu_plugin::{
    Args, HasCallbacks, Info, PluginId, Register, Value,
    sys::{self, qemu_plugin_cb_flags as CbFlags},
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    clock::{Clock, current_cpu},
    cpus::Cpus,
    flow::{Block, Flow},
    insn::{self, End},
    marks::Marks,
    out::Out,
    spec::{Flags, Mode, Spec},
};

mod guest;
mod marking;

use guest::Registers;

/// Most targets of calls outside of the table that are noted.
const MOST_STRAYS: usize = 512;
/// After so many calls what is known of the symbols is written for the first time.
const EARLY_CALLS: u64 = 1000;
/// Most blocks whose instructions' places are kept.
const MOST_PLACES: usize = 1 << 21;

/// Everything that is known.
struct Tracer {
    spec: Spec,
    clock: Clock,
    cpus: Cpus,
    /// Where QEMU has the running CPU, in the one thread of a profile.
    current: *const *mut c_void,
    registers: Registers,
    /// By address, length, last instruction's address and function: retranslated blocks are
    /// the same.
    blocks: FxHashMap<(u64, u32, u64, u32), &'static Block>,
    /// Where calls return to.
    behind_calls: FxHashSet<u64>,
    /// Of marks-only mode.
    marks: Marks,
    #[cfg(feature = "conditions")]
    elsewhere: sys::qemu_plugin_u64,
    strays: FxHashSet<u64>,
    hits: u64,
    misses: u64,
    flow: Flow,
}

/// Set once, when the plugin is loaded, and never freed.
static TRACER: AtomicPtr<Tracer> = AtomicPtr::new(std::ptr::null_mut());
/// Marks come from several threads where the machine does not count instructions.
static TURN: Mutex<()> = Mutex::new(());

/// The tracer; in a profile, the only user.
///
/// # Safety
/// Called from QEMU's callbacks only: with a profile, all run in one thread; without, the
/// caller holds [`TURN`].
unsafe fn tracer() -> &'static mut Tracer {
    // SAFETY: set before the first callback is registered.
    unsafe { &mut *TRACER.load(Ordering::Relaxed) }
}

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

struct Plugin;

impl HasCallbacks for Plugin {}

impl Register for Plugin {
    fn register_default(
        &mut self,
        id: PluginId,
        args: &Args,
        info: &Info,
    ) -> qemu_plugin::Result<()> {
        if args.parsed.contains_key("probe") {
            // Only whether it can work here.
            let found = Clock::find(true).err();
            eprintln!("bootrig-tracer: {}", found.as_deref().unwrap_or("ready"));
            std::process::exit(i32::from(found.is_some()));
        }
        let tracer = match begin(args, info) {
            Ok(tracer) => tracer,
            Err(why) => {
                eprintln!("bootrig-tracer: {why}");
                std::process::exit(1);
            }
        };
        let place = Box::into_raw(Box::new(tracer));
        TRACER.store(place, Ordering::Relaxed);
        // SAFETY: the callbacks are functions that live as long as this library.
        unsafe {
            sys::qemu_plugin_register_vcpu_init_cb(id, Some(on_cpu));
            sys::qemu_plugin_register_vcpu_tb_trans_cb(id, Some(on_translation));
            sys::qemu_plugin_register_atexit_cb(id, Some(on_exit), std::ptr::null_mut());
        }
        Ok(())
    }
}

qemu_plugin::register!(Plugin);

fn begin(args: &Args, info: &Info) -> Result<Tracer, String> {
    let text = |name: &str| match args.parsed.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        other => Err(format!("argument {name}: {other:?}")),
    };
    let counting = match args.parsed.get("counting") {
        Some(Value::Bool(counting)) => *counting,
        other => return Err(format!("argument counting: {other:?}")),
    };
    let path = text("spec")?;
    let spec = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let spec = Spec::parse(&spec).map_err(|e| format!("{path}: {e}"))?;
    if spec.mode == Mode::Profile && !counting {
        return Err("a profile needs a machine that counts instructions".into());
    }
    let path = text("out")?;
    let mut out = Out::create(Path::new(&path)).map_err(|e| format!("{path}: {e}"))?;
    // Where an interrupt came from is read from the guest's stack.
    let stacks = cfg!(feature = "memory") && spec.mode == Mode::Profile;
    let cpus = info.system.as_ref().map_or(0, |s| s.smp_vcpus);
    out.line(format_args!(
        "begin api={} cpus={cpus} mode={:?} stacks={stacks} shift={}",
        sys::QEMU_PLUGIN_VERSION,
        spec.mode,
        spec.shift
    ));
    out.flush();
    Ok(Tracer {
        clock: Clock::find(counting)?,
        cpus: Cpus::default(),
        current: std::ptr::null(),
        registers: Registers::default(),
        blocks: FxHashMap::default(),
        behind_calls: FxHashSet::default(),
        marks: Marks::default(),
        #[cfg(feature = "conditions")]
        elsewhere: sys::qemu_plugin_u64 {
            // SAFETY: called while the plugin is installed.
            score: unsafe { sys::qemu_plugin_scoreboard_new(8) },
            offset: 0,
        },
        strays: FxHashSet::default(),
        hits: 0,
        misses: 0,
        flow: Flow::new(spec.clone(), stacks, out),
        spec,
    })
}

unsafe extern "C" fn on_cpu(_: sys::qemu_plugin_id_t, vcpu: c_uint) {
    let _turn = turn();
    // SAFETY: holding the turn.
    let tracer = unsafe { tracer() };
    tracer.flow.cpu_appears(vcpu as usize);
    // SAFETY: a CPU begins in its own thread, where QEMU has set it.
    unsafe {
        tracer.current = current_cpu();
        tracer.cpus.appears(*tracer.current as usize, vcpu as usize);
    }
    tracer.registers.find();
}

unsafe extern "C" fn on_exit(_: sys::qemu_plugin_id_t, _: *mut c_void) {
    let _turn = turn();
    // SAFETY: holding the turn; QEMU's CPUs have stopped, or it is one of them that ends it.
    let tracer = unsafe { tracer() };
    if tracer.spec.mode == Mode::Profile {
        tracer.flow.end(tracer.clock.now());
    }
    tracer.say_calls();
    let out = &mut tracer.flow.out;
    let mut strays: Vec<_> = tracer.strays.iter().collect();
    strays.sort();
    for stray in strays {
        out.line(format_args!("K {stray:x}"));
    }
    out.end();
}

unsafe extern "C" fn on_translation(_: sys::qemu_plugin_id_t, tb: *mut sys::qemu_plugin_tb) {
    let _turn = turn();
    // SAFETY: holding the turn.
    let tracer = unsafe { tracer() };
    let count = unsafe { sys::qemu_plugin_tb_n_insns(tb) };
    let pc = unsafe { sys::qemu_plugin_tb_vaddr(tb) };
    if count == 0 {
        return;
    }
    // SAFETY: there are `count` of them, all valid during this call.
    let nth = |n: usize| unsafe { sys::qemu_plugin_tb_get_insn(tb, n) };
    let last = nth(count - 1);
    let (last_pc, bytes) = (
        unsafe { sys::qemu_plugin_insn_vaddr(last) },
        guest::bytes(last),
    );
    let (end, target) = insn::classify(&bytes, last_pc);
    let next = last_pc.wrapping_add(bytes.len() as u64);
    if end == End::Call && target != 0 && pc >> 63 == 1 {
        tracer.note_call(pc, target);
    }
    if tracer.spec.mode == Mode::Marks {
        return tracer.look_for_marks(tb, count, pc, last, last_pc, &bytes, end, target, next);
    }
    if end == End::Call {
        tracer.behind_calls.insert(next);
    }
    let (function, flags) = tracer.flow.place(pc);
    let name = (pc, count as u32, last_pc, function);
    let block = match tracer.blocks.get(&name) {
        Some(block) if block.end == end && block.next == next && block.target == target => block,
        _ => {
            let places = (0..count)
                .map(|n| unsafe { sys::qemu_plugin_insn_vaddr(nth(n)) }.wrapping_sub(pc) as u16);
            let keep = tracer.blocks.len() < MOST_PLACES;
            let offsets: Box<[u16]> = if keep {
                places.collect()
            } else {
                Box::default()
            };
            let block: &'static Block = Box::leak(Box::new(Block::new(
                (pc, next, count as i64),
                (function, flags),
                (end, target),
                Box::leak(offsets),
            )));
            tracer.blocks.insert(name, block);
            block
        }
    };
    const ASKS: u32 =
        Flags::IRQ | Flags::FAULT | Flags::FAULT_CODE | Flags::SWITCH | Flags::MARK | Flags::MODULE;
    let reads = flags.any(Flags::ENTRY) && flags.any(ASKS);
    let registers = if reads {
        CbFlags::QEMU_PLUGIN_CB_R_REGS
    } else {
        CbFlags::QEMU_PLUGIN_CB_NO_REGS
    };
    // Where it is known that most often more than a count changes, that is not tried first: the
    // host's CPU then foresees well what `on_block` does.
    let other = flags.0 != 0 || tracer.behind_calls.contains(&pc);
    let call = if other { on_other_block } else { on_block };
    // SAFETY: the block is never freed.
    unsafe {
        let data = std::ptr::from_ref(block).cast_mut().cast();
        sys::qemu_plugin_register_vcpu_tb_exec_cb(tb, Some(call), registers, data);
    }
}

/// The hot path: each block that the guest executes.
unsafe extern "C" fn on_block(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: a profile runs in one thread, its CPUs have appeared, and the block is never freed.
    unsafe {
        let tracer = tracer();
        let block = &*data.cast::<Block>();
        let runs = tracer.cpus.recent(*tracer.current as usize);
        if !runs.is_some_and(|vcpu| tracer.flow.quick(vcpu, block)) {
            on_other_block(vcpu, data);
        }
    }
}

// Apart, and with what it was called with, so that the hot path saves no registers for it.
#[inline(never)]
unsafe extern "C" fn on_other_block(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: as above.
    unsafe {
        let tracer = tracer();
        let block = &*data.cast::<Block>();
        let vcpu = tracer.cpus.number(*tracer.current as usize, vcpu as usize);
        if !tracer.flow.usual(vcpu, block) && !tracer.flow.quick(vcpu, block) {
            step(tracer, vcpu, block);
        }
    }
}

#[inline(never)]
fn step(tracer: &mut Tracer, vcpu: usize, block: &'static Block) {
    let mut guest = guest::Now {
        clock: tracer.clock,
        registers: &tracer.registers,
    };
    tracer.flow.step(vcpu, block, &mut guest);
}

impl Tracer {
    /// Whether calls in the kernel's text go to where functions begin, by the host's table.
    fn note_call(&mut self, pc: u64, target: u64) {
        let inside = |at: u64| (self.spec.text.0..self.spec.text.1).contains(&at);
        match (inside(pc), inside(target)) {
            (true, true) => {
                let is = self.spec.at(target).is_some_and(|f| f.address == target);
                self.hits += u64::from(is);
                self.misses += u64::from(!is);
                // A machine that is killed leaves this much to judge the symbols by.
                if self.hits + self.misses == EARLY_CALLS {
                    self.say_calls();
                }
            }
            _ if target >> 31 == u64::MAX >> 31 && self.strays.len() < MOST_STRAYS => {
                self.strays.insert(target);
            }
            _ => {}
        }
    }

    fn say_calls(&mut self) {
        let (hits, misses) = (self.hits, self.misses);
        self.flow.out.line(format_args!("k {hits} {misses}"));
    }
}
