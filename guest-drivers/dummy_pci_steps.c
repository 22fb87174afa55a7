// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waits as drivers of real hardware do. What a step takes is decided by the kernel's own
 * functions (a jiffy more or less, the timer wheel's rounding): that is part of what is
 * measured.
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/time64.h>

#include "compat.h"
#include "dummy_pci.h"

/* Stand for what unrelated devices share in real drivers, RTNL say. */
static struct mutex locks[DUMMY_LOCKS];

void dummy_steps_init(void)
{
	int i;

	for (i = 0; i < DUMMY_LOCKS; i++)
		mutex_init(&locks[i]);
}

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

/* The same without giving up the CPU. */
static void spin_step(u64 ns)
{
	u64 until = ktime_get_ns() + ns;
	u64 now;

	while ((now = ktime_get_ns()) < until) {
		u64 left = until - now;

		if (left >= 2 * NSEC_PER_MSEC)
			mdelay(1);
		else if (left >= 2 * NSEC_PER_USEC)
			udelay(div_u64(left, NSEC_PER_USEC) - 1);
		else
			cpu_relax();
	}
}

/**
 * dummy_run - spend the time that a callback of the device takes
 * @profile: the device's delays
 * @op: the callback
 * @rec: the callback's record, told when the lock is held
 */
void dummy_run(const struct dummy_profile *profile, enum marks_op op, struct marks_record *rec)
{
	const struct dummy_step *step;

	if (profile->lock != DUMMY_NO_LOCK) {
		mutex_lock(&locks[profile->lock]);
		marks_locked(rec);
	}
	for (step = profile->steps[op]; step->kind; step++) {
		switch (step->kind) {
		case 's':
			sleep_step(step->ns);
			break;
		case 'w':
			wait_step(step->ns);
			break;
		case 'p':
			poll_step(step->ns, step->every_ns);
			break;
		case 'b':
			spin_step(step->ns);
			break;
		}
	}
	if (profile->lock != DUMMY_NO_LOCK)
		mutex_unlock(&locks[profile->lock]);
}
