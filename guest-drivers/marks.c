// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records what happens in a timed window, and writes it out after the window.
 *
 * Callbacks of dummy drivers and marks go into a buffer of fixed size: a slot is taken
 * with one atomic operation; there is no lock, no allocation and no printk. The buffer is
 * written, as docs/protocol.md says, to the byte port that QEMU's isa-debugcon listens on.
 *
 * device_shutdown() is bracketed on an unpatched kernel: kernel_restart() and its
 * siblings call the reboot notifiers, device_shutdown() and the syscore shutdown
 * callbacks, in this order. Our notifier is the last of the former and our callback,
 * registered late, the first of the latter. kernel_kexec() calls no syscore shutdown up
 * to 6.x, but those who dump the kernel's log, a little later; whoever comes first ends
 * the bracket.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/device/driver.h>
#include <linux/io.h>
#include <linux/kmsg_dump.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/mc146818rtc.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <asm/tsc.h>

#include "compat.h"
#include "marks.h"

#define PORT		0x505
#define MAX_RECORDS	1048576U

enum kind {
	KIND_CALLBACK,
	KIND_MARK,
	KIND_NAME,
};

enum state {
	STATE_EMPTY,	/* slot taken, not filled in yet */
	STATE_OPEN,	/* callback entered */
	STATE_DONE,	/* callback left, or no callback */
	STATE_WRITTEN,
};

/**
 * struct marks_record - one callback, one mark or one name
 * @begin: CLOCK_MONOTONIC when the callback was entered, or of the mark
 * @locked: when the callback held its lock; @begin until then
 * @end: when the callback was left
 * @tsc: time stamp counter of the mark
 * @ret: what the callback returned
 * @id: device number, or enum marks_point
 * @cpu: where the callback was entered, or the number in the name
 * @pid: the task that entered it
 * @kind: enum kind
 * @op: enum marks_op
 * @state: enum state; what it announces is written before it (release and acquire)
 */
struct marks_record {
	u64 begin;
	u64 locked;
	u64 end;
	u64 tsc;
	s32 ret;
	u32 id;
	u32 cpu;
	u32 pid;
	u8 kind;
	u8 op;
	u8 state;
} ____cacheline_aligned;

static unsigned int records = 4096;
module_param(records, uint, 0444);
MODULE_PARM_DESC(records, "room for this many callbacks and marks (16 to 1048576)");

static bool callbacks = true;
module_param(callbacks, bool, 0444);
MODULE_PARM_DESC(callbacks, "whether callbacks and names are recorded, or only marks");

static struct marks_record *buffer;
static atomic_t taken = ATOMIC_INIT(0);

static struct marks_record *take(enum kind kind, u32 id)
{
	struct marks_record *rec;
	unsigned int slot = atomic_fetch_inc(&taken);

	if (slot >= records)
		return NULL;
	rec = &buffer[slot];
	rec->kind = kind;
	rec->id = id;
	return rec;
}

/**
 * marks_begin - a driver callback is entered
 * @dev: the device's number in the scenario
 * @op: which callback
 *
 * Return: the record to pass on, or NULL when callbacks are not recorded, or the buffer is
 * full, which is counted; the functions below put up with it.
 */
struct marks_record *marks_begin(u32 dev, enum marks_op op)
{
	struct marks_record *rec;
	u64 now;

	if (!callbacks)
		return NULL;
	now = ktime_get_ns();
	rec = take(KIND_CALLBACK, dev);
	if (!rec)
		return NULL;
	rec->op = op;
	rec->begin = now;
	rec->locked = now;
	rec->cpu = raw_smp_processor_id();
	rec->pid = current->pid;
	/* Pairs with the load in write_records(). */
	smp_store_release(&rec->state, STATE_OPEN);
	return rec;
}
EXPORT_SYMBOL_GPL(marks_begin);

/**
 * marks_locked - the callback holds the lock that it shares with other devices
 * @rec: from marks_begin()
 */
void marks_locked(struct marks_record *rec)
{
	if (rec)
		WRITE_ONCE(rec->locked, ktime_get_ns());
}
EXPORT_SYMBOL_GPL(marks_locked);

/**
 * marks_unlocking - the callback is about to let go of that lock
 * @rec: from marks_begin()
 *
 * Its end is now: whoever gets the lock next may run before the one that let go of it does.
 */
void marks_unlocking(struct marks_record *rec)
{
	if (rec)
		WRITE_ONCE(rec->end, ktime_get_ns());
}
EXPORT_SYMBOL_GPL(marks_unlocking);

/**
 * marks_end - the callback is left
 * @rec: from marks_begin()
 * @ret: what it returns; 0 for one that returns nothing
 */
void marks_end(struct marks_record *rec, int ret)
{
	if (!rec)
		return;
	rec->ret = ret;
	if (!rec->end)
		WRITE_ONCE(rec->end, ktime_get_ns());
	/* Pairs with the load in write_records(). */
	smp_store_release(&rec->state, STATE_DONE);
}
EXPORT_SYMBOL_GPL(marks_end);

/**
 * marks_point - a phase begins or ends now
 * @point: which
 */
void marks_point(enum marks_point point)
{
	u64 now = ktime_get_ns();
	u64 tsc = rdtsc_ordered();
	struct marks_record *rec = take(KIND_MARK, point);

	if (!rec)
		return;
	rec->begin = now;
	rec->tsc = tsc;
	/* Pairs with the load in write_records(). */
	smp_store_release(&rec->state, STATE_DONE);
}
EXPORT_SYMBOL_GPL(marks_point);

/**
 * marks_name - a device got its name
 * @dev: the device's number in the scenario
 * @number: the number in its name
 */
void marks_name(u32 dev, u32 number)
{
	struct marks_record *rec = callbacks ? take(KIND_NAME, dev) : NULL;

	if (!rec)
		return;
	rec->cpu = number;
	/* Pairs with the load in write_records(). */
	smp_store_release(&rec->state, STATE_DONE);
}
EXPORT_SYMBOL_GPL(marks_name);

static atomic_t busy = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(idle);

/**
 * marks_busy - work that a flush has to wait for has begun, unknown to the driver core
 */
void marks_busy(void)
{
	atomic_inc(&busy);
}
EXPORT_SYMBOL_GPL(marks_busy);

/**
 * marks_idle - it has ended
 */
void marks_idle(void)
{
	if (atomic_dec_and_test(&busy))
		wake_up_all(&idle);
}
EXPORT_SYMBOL_GPL(marks_idle);

/* Writing out. All below is serialised by write_lock, or by closed at shutdown. */

static const char * const op_names[] = {
	[MARKS_PROBE] = "probe",
	[MARKS_SHUTDOWN] = "shutdown",
	[MARKS_REMOVE] = "remove",
};

static const char * const point_names[] = {
	[MARKS_ATTACH_BEGIN] = "attach_begin",
	[MARKS_ATTACH_END] = "attach_end",
	[MARKS_SHUTDOWN_BEGIN] = "shutdown_begin",
	[MARKS_SHUTDOWN_END] = "shutdown_end",
	[MARKS_DUMP_END] = "dump_end",
};

static DEFINE_MUTEX(write_lock);
static bool closed;		/* shutdown has begun: flush is refused */
static unsigned int lines;	/* written so far */
static unsigned int first;	/* every record before this one is written */

static u32 fnv1a(const char *text, size_t len)
{
	u32 hash = 0x811c9dc5;

	while (len--)
		hash = (hash ^ (u8)*text++) * 0x01000193;
	return hash;
}

static __printf(1, 2) void write_line(const char *format, ...)
{
	static char line[256];
	va_list args;
	size_t len;

	len = scnprintf(line, sizeof(line), "bootrig1 k %u ", lines++);
	va_start(args, format);
	len += vscnprintf(line + len, sizeof(line) - len, format, args);
	va_end(args);
	len += scnprintf(line + len, sizeof(line) - len, " #%08x\n", fnv1a(line, len));
	outsb(PORT, line, len);
}

static void write_callback(const struct marks_record *rec, bool open)
{
	char end[24] = "-";

	if (!open)
		scnprintf(end, sizeof(end), "%llu", rec->end);
	write_line("cb dev=%u op=%s begin=%llu locked=%llu end=%s cpu=%u pid=%u ret=%d",
		   rec->id, op_names[rec->op], rec->begin, READ_ONCE(rec->locked), end,
		   rec->cpu, rec->pid, open ? 0 : rec->ret);
}

static void write_mark(enum marks_point point, u64 mono, u64 tsc)
{
	write_line("mark name=%s mono=%llu tsc=%llu", point_names[point], mono, tsc);
}

static void write_record(const struct marks_record *rec, bool open)
{
	switch (rec->kind) {
	case KIND_MARK:
		write_mark(rec->id, rec->begin, rec->tsc);
		break;
	case KIND_NAME:
		write_line("name dev=%u number=%u", rec->id, rec->cpu);
		break;
	default:
		write_callback(rec, open);
	}
}

/*
 * Writes the records that are done and, when @all, those still open. Returns how many
 * were skipped.
 */
static unsigned int write_records(bool all)
{
	unsigned int slot, skipped = 0;

	if (!lines)
		write_line("config hz=%d tsc_khz=%u", HZ, tsc_khz);
	/* Other CPUs may go on recording: look at the count anew each time. */
	for (slot = first; slot < min_t(unsigned int, atomic_read(&taken), records); slot++) {
		struct marks_record *rec = &buffer[slot];
		/* Pairs with the stores in the functions that record. */
		u8 state = smp_load_acquire(&rec->state);

		if (state == STATE_EMPTY || (state == STATE_OPEN && !all)) {
			skipped++;
			continue;
		}
		if (state != STATE_WRITTEN)
			write_record(rec, state == STATE_OPEN);
		/* After the last time, an open one may still end: leave its state alone. */
		if (!all)
			rec->state = STATE_WRITTEN;
		if (!skipped)
			first = slot + 1;
	}
	return skipped;
}

static int flush_set(const char *val, const struct kernel_param *kp)
{
	int ret = 0;

	/* As a parameter of the load itself it comes before there is a buffer. */
	if (!buffer)
		return -EINVAL;
	/*
	 * device_shutdown() waits for every probe that is under way: a mouse on a PC may
	 * take half a second. That belongs to the boot. So do drivers that are still to be
	 * registered by a task of their own. A probe that never ends must not keep stop= from
	 * being written.
	 */
	kernel_param_unlock(THIS_MODULE);
	wait_event(idle, !atomic_read(&busy));
	wait_for_device_probe();
	kernel_param_lock(THIS_MODULE);
	mutex_lock(&write_lock);
	if (closed)
		ret = -ESHUTDOWN;
	else
		write_records(false);
	mutex_unlock(&write_lock);
	return ret;
}

static const struct kernel_param_ops flush_ops = {
	.set = flush_set,
};
module_param_cb(flush, &flush_ops, NULL, 0200);
MODULE_PARM_DESC(flush, "write anything here to wait for all probes, and have the finished records written out");

/* Writes all that there is, open or not, and that it is all. */
static void write_rest(void)
{
	unsigned int lost = write_records(true);
	unsigned int count = atomic_read(&taken);

	if (count > records)
		lost += count - records;
	if (lost)
		write_line("lost events=%u", lost);
}

static void write_end(void)
{
	write_line("end lines=%u", lines);
}

static int stop_set(const char *val, const struct kernel_param *kp)
{
	int ret = 0;

	if (!buffer)
		return -EINVAL;
	mutex_lock(&write_lock);
	if (closed) {
		ret = -ESHUTDOWN;
	} else {
		closed = true;
		write_rest();
		write_end();
	}
	mutex_unlock(&write_lock);
	return ret;
}

static const struct kernel_param_ops stop_ops = {
	.set = stop_set,
};
module_param_cb(stop, &stop_ops, NULL, 0200);
MODULE_PARM_DESC(stop, "write anything here to have all records written out, those of callbacks that have not returned too; nothing is recorded for the host after that");

static int before_devices(struct notifier_block *nb, unsigned long action, void *data)
{
	/* Lets a running flush end and keeps later ones out. */
	mutex_lock(&write_lock);
	closed = true;
	mutex_unlock(&write_lock);
	marks_point(MARKS_SHUTDOWN_BEGIN);
	return NOTIFY_DONE;
}

static struct notifier_block last_notifier = {
	.notifier_call = before_devices,
	.priority = INT_MIN,
};

/*
 * Left ticking, these make QEMU's virtual clock depend on the host at the reset: between
 * the CPU's stop and the reset the machine counts as idle, and whether its clock then
 * skips to the next tick is a race between two threads of QEMU. Without a tick to come
 * there is nothing to skip to. The kernel needs neither any more; the reset starts the
 * timer, and the firmware the clock, again.
 */
static void stop_ticks(void)
{
	unsigned long flags;

	/* Legacy timer: one-shot of a single count. */
	outb(0x30, 0x43);
	outb(1, 0x40);
	outb(0, 0x40);
	/* Battery-backed clock: hold its divider in reset. */
	spin_lock_irqsave(&rtc_lock, flags);
	CMOS_WRITE(RTC_DIV_RESET2, RTC_FREQ_SELECT);
	spin_unlock_irqrestore(&rtc_lock, flags);
}

/* Returns false if it has been called before: the task that restarts calls it, in turn. */
static bool after_devices(void)
{
	static bool written;

	if (written || !closed)
		return false;
	written = true;
	marks_point(MARKS_SHUTDOWN_END);
	write_rest();
	write_mark(MARKS_DUMP_END, ktime_get_ns(), rdtsc_ordered());
	write_end();
	return true;
}

static void at_syscore_shutdown(void)
{
	if (after_devices())
		stop_ticks();
}

BOOTRIG_SYSCORE_SHUTDOWN(at_syscore_shutdown);

/* No reset will come, so that nothing has to be stopped for it. */
BOOTRIG_KMSG_DUMP(log_dumper)
{
	if (reason == KMSG_DUMP_SHUTDOWN)
		after_devices();
}

static int __init marks_init(void)
{
	int ret;

	if (records < 16 || records > MAX_RECORDS) {
		pr_err("records=%u: must be 16 to %u\n", records, MAX_RECORDS);
		return -EINVAL;
	}
	buffer = vzalloc(array_size(records, sizeof(*buffer)));
	if (!buffer)
		return -ENOMEM;
	ret = register_reboot_notifier(&last_notifier);
	if (ret) {
		vfree(buffer);
		return ret;
	}
	ret = kmsg_dump_register(&log_dumper);
	if (ret) {
		unregister_reboot_notifier(&last_notifier);
		vfree(buffer);
		return ret;
	}
	bootrig_syscore_register();
	return 0;
}

static void __exit marks_exit(void)
{
	bootrig_syscore_unregister();
	kmsg_dump_unregister(&log_dumper);
	unregister_reboot_notifier(&last_notifier);
	vfree(buffer);
}

module_init(marks_init);
module_exit(marks_exit);
MODULE_DESCRIPTION("bootrig: records of driver callbacks and marks around device_shutdown()");
MODULE_LICENSE("GPL");
