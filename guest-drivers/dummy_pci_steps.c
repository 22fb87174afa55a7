// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waits as drivers of real hardware do. What a step takes is decided by the kernel's own
 * functions (a jiffy more or less, the timer wheel's rounding): that is part of what is
 * measured.
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/time64.h>

#include "compat.h"
#include "dummy_pci.h"

/* Stand for what unrelated devices share in real drivers, RTNL say. */
static struct mutex locks[DUMMY_LOCKS];

static void sleep_step(u64 ns)
{
	msleep(div_u64(ns + NSEC_PER_MSEC - 1, NSEC_PER_MSEC));
}

struct waiter {
	struct hrtimer timer;
	struct completion done;
};

static enum hrtimer_restart waiter_fires(struct hrtimer *timer)
{
	complete(&container_of(timer, struct waiter, timer)->done);
	return HRTIMER_NORESTART;
}

/* A command is sent and its completion interrupt awaited. */
static void wait_step(u64 ns)
{
	struct waiter waiter;

	init_completion(&waiter.done);
	hrtimer_setup_on_stack(&waiter.timer, waiter_fires, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hrtimer_start(&waiter.timer, ns_to_ktime(ns), HRTIMER_MODE_REL);
	wait_for_completion(&waiter.done);
	/* The callback may still be in its last instructions, on this stack. */
	hrtimer_cancel(&waiter.timer);
	destroy_hrtimer_on_stack(&waiter.timer);
}

/* Looks at a register again and again until it has the awaited value. */
static void poll_step(u64 ns, u64 every_ns)
{
	u64 until = ktime_get_ns() + ns;
	unsigned long us = div_u64(every_ns + NSEC_PER_USEC - 1, NSEC_PER_USEC);

	while (ktime_get_ns() < until) {
		if (us < 20 * USEC_PER_MSEC)
			usleep_range(us, us + us / 16 + 1);
		else
			msleep(DIV_ROUND_UP(us, USEC_PER_MSEC));
	}
}

static void spin_until(u64 until)
{
	u64 now;

	while ((now = ktime_get_ns()) < until) {
		u64 left = until - now;

		if (left >= 2 * NSEC_PER_USEC)
			udelay(div_u64(left, NSEC_PER_USEC) - 1);
		else
			cpu_relax();
	}
}

/* How often the task has been off its CPU. */
static unsigned long switches(void)
{
	return current->nvcsw + current->nivcsw;
}

/*
 * The same without giving up the CPU. On one CPU such devices must not overlap, so that
 * only the time counts that the task had the CPU: it looks at the clock while it cannot
 * be preempted, and lets others run after each millisecond. If nobody did, the time in
 * between was its own, too.
 */
static void spin_step(u64 ns)
{
	unsigned long before;
	u64 begin, now;

	preempt_disable();
	begin = ktime_get_ns();
	for (;;) {
		spin_until(begin + min_t(u64, ns, NSEC_PER_MSEC));
		now = ktime_get_ns();
		if (now - begin >= ns)
			break;
		ns -= now - begin;
		before = switches();
		preempt_enable();
		cond_resched();
		preempt_disable();
		begin = before == switches() ? now : ktime_get_ns();
	}
	preempt_enable();
}

/* Computes. The loop is the same wherever it is called from. */
static noinline void compute(u64 iterations)
{
	asm volatile("1:	dec %0\n"
		     "	jnz 1b"
		     : "+r" (iterations)
		     :
		     : "cc");
}

#define CALIBRATION	262144U		/* iterations: 0.1 to 1 ms */
#define ROUNDS		5

static u64 iterations_per_ms;

static u64 time_to_compute(u64 iterations)
{
	u64 begin, took;

	preempt_disable();
	begin = ktime_get_ns();
	compute(iterations);
	took = ktime_get_ns() - begin;
	preempt_enable();
	return took;
}

/*
 * Twice the iterations less once the iterations: what the clock costs drops out. The
 * quickest of several rounds had no interrupt in it.
 */
static void calibrate(void)
{
	u64 once = U64_MAX, twice = U64_MAX;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		once = min(once, time_to_compute(CALIBRATION));
		twice = min(twice, time_to_compute(2 * CALIBRATION));
		cond_resched();
	}
	/* Whatever happened to the clock, computing must come to an end. */
	twice = max(twice, once + 1);
	iterations_per_ms = max_t(u64, div64_u64(CALIBRATION * NSEC_PER_MSEC, twice - once), 1);
}

/*
 * Computes what takes that long alone on a CPU, however long it takes now. Unlike time
 * spent looking at the clock it adds up where CPUs share one core, as all do in virtual
 * time.
 */
static void compute_step(u64 ns)
{
	u64 left = mul_u64_u64_div_u64(ns, iterations_per_ms, NSEC_PER_MSEC);

	while (left) {
		u64 chunk = min(left, iterations_per_ms);

		compute(chunk);
		left -= chunk;
		cond_resched();
	}
}

static int thread(void *unused)
{
	while (!kthread_should_stop()) {
		set_current_state(TASK_IDLE);
		if (!kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
	}
	return 0;
}

/* As for a workqueue's rescuer or a SCSI host's error handler: a killed task may not. */
static int thread_step(void)
{
	struct task_struct *task = kthread_run(thread, NULL, "dummy_pci_step");

	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_stop(task);
	return 0;
}

/**
 * dummy_steps_init - prepare for dummy_run()
 * @computes: whether any profile computes, for which the CPU's speed is measured
 */
void dummy_steps_init(bool computes)
{
	int i;

	for (i = 0; i < DUMMY_LOCKS; i++)
		mutex_init(&locks[i]);
	if (computes)
		calibrate();
}

/**
 * dummy_step - wait as a step says
 * @step: the step
 *
 * Return: 0, or why it could not be done.
 */
int dummy_step(const struct dummy_step *step)
{
	switch (step->kind) {
	case 's':
		sleep_step(step->ns);
		return 0;
	case 'w':
		wait_step(step->ns);
		return 0;
	case 'p':
		poll_step(step->ns, step->every_ns);
		return 0;
	case 'b':
		spin_step(step->ns);
		return 0;
	case 'c':
		compute_step(step->ns);
		return 0;
	case 't':
		return thread_step();
	default:
		return -EINVAL;
	}
}

static int run_unlocked(const struct dummy_profile *profile, struct pci_dev *pdev,
			enum marks_op op)
{
	const struct dummy_step *step;
	int ret;

	if (op == MARKS_PROBE && profile->firmware) {
		ret = dummy_load_firmware(profile->firmware, &pdev->dev);
		if (ret)
			return ret;
	}
	for (step = profile->steps[op]; step->kind; step++) {
		ret = dummy_step(step);
		if (ret)
			return ret;
	}
	return 0;
}

/**
 * dummy_run - spend the time that a callback of the device takes
 * @device: its delays
 * @pdev: the device
 * @op: the callback
 * @rec: the callback's record, told from when to when the lock is held
 *
 * Return: 0, or why the callback could not do its work.
 */
int dummy_run(const struct dummy_device *device, struct pci_dev *pdev, enum marks_op op,
	      struct marks_record *rec)
{
	const struct dummy_profile *profile = device->profile;
	int ret;

	if (profile->lock == DUMMY_NO_LOCK)
		return run_unlocked(profile, pdev, op);
	mutex_lock(&locks[profile->lock]);
	marks_locked(rec);
	ret = run_unlocked(profile, pdev, op);
	marks_unlocking(rec);
	mutex_unlock(&locks[profile->lock]);
	return ret;
}
