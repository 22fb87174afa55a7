/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernels that bootrig measures (5.10 to 7.x), and nothing else.
 * Kbuild finds out what the kernel at hand has.
 */
#ifndef BOOTRIG_COMPAT_H
#define BOOTRIG_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/slab.h>
#include <linux/syscore_ops.h>

#ifndef kzalloc_obj
#define kzalloc_obj(object) kzalloc(sizeof(object), GFP_KERNEL)
#endif

#ifndef HAVE_HRTIMER_SETUP
static inline void hrtimer_setup_on_stack(struct hrtimer *timer,
					  enum hrtimer_restart (*function)(struct hrtimer *),
					  clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init_on_stack(timer, clock, mode);
	timer->function = function;
}
#endif

/*
 * Defines bootrig_syscore_register() and bootrig_syscore_unregister() for a callback of
 * type void (*)(void) that runs at shutdown. Use once in a file.
 */
#ifdef HAVE_REGISTER_SYSCORE
#define BOOTRIG_SYSCORE_SHUTDOWN(callback)				\
static void bootrig_syscore_call(void *unused)				\
{									\
	callback();							\
}									\
static const struct syscore_ops bootrig_syscore_ops = {			\
	.shutdown = bootrig_syscore_call,				\
};									\
static struct syscore bootrig_syscore = {				\
	.ops = &bootrig_syscore_ops,					\
};									\
static void bootrig_syscore_register(void)				\
{									\
	register_syscore(&bootrig_syscore);				\
}									\
static void bootrig_syscore_unregister(void)				\
{									\
	unregister_syscore(&bootrig_syscore);				\
}
#else
#define BOOTRIG_SYSCORE_SHUTDOWN(callback)				\
static struct syscore_ops bootrig_syscore_ops = {			\
	.shutdown = callback,						\
};									\
static void bootrig_syscore_register(void)				\
{									\
	register_syscore_ops(&bootrig_syscore_ops);			\
}									\
static void bootrig_syscore_unregister(void)				\
{									\
	unregister_syscore_ops(&bootrig_syscore_ops);			\
}
#endif

#endif
