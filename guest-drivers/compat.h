/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernels that bootrig measures (5.10 to 7.x), and nothing else.
 * Kbuild finds out what the kernel at hand has.
 */
#ifndef BOOTRIG_COMPAT_H
#define BOOTRIG_COMPAT_H

#include <linux/device.h>
#include <linux/device/class.h>
#include <linux/hrtimer.h>
#include <linux/initrd.h>
#include <linux/kmsg_dump.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/syscore_ops.h>
#include <linux/workqueue.h>

#ifndef kzalloc_obj
#define kzalloc_obj(object) kzalloc(sizeof(object), GFP_KERNEL)
#endif

/* The workqueue without a CPU of its own was renamed, and using the old name is complained of. */
#ifdef HAVE_SYSTEM_DFL_WQ
#define bootrig_unbound_wq	system_dfl_wq
#else
#define bootrig_unbound_wq	system_unbound_wq
#endif

static inline struct class *bootrig_class_create(const char *name)
{
#ifdef HAVE_CLASS_CREATE_BY_NAME
	return class_create(name);
#else
	return class_create(THIS_MODULE, name);
#endif
}

/* Has sysfs's `online` never take it offline. For devices that are not registered yet. */
static inline void bootrig_disable_offline(struct device *dev)
{
#ifdef HAVE_DEV_FLAG_OFFLINE
	dev_set_offline_disabled(dev);
#else
	dev->offline_disabled = true;
#endif
}

/* Before 5.13 it is unpacked by the time that drivers are initialised. */
static inline void bootrig_wait_for_initramfs(void)
{
#ifdef HAVE_WAIT_FOR_INITRAMFS
	wait_for_initramfs();
#endif
}

#ifndef HAVE_HRTIMER_SETUP
static inline void hrtimer_setup_on_stack(struct hrtimer *timer,
					  enum hrtimer_restart (*function)(struct hrtimer *),
					  clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init_on_stack(timer, clock, mode);
	timer->function = function;
}
#endif

/* Lets only the driver of this name bind. For devices that nothing can bind yet. */
static inline int bootrig_set_driver(struct pci_dev *pdev, const char *name)
{
#ifdef HAVE_DEVICE_DRIVER_OVERRIDE
	return device_set_driver_override(&pdev->dev, name);
#else
	pdev->driver_override = kstrdup(name, GFP_KERNEL);
	return pdev->driver_override ? 0 : -ENOMEM;
#endif
}

/*
 * BOOTRIG_KMSG_DUMP(name) { ... } defines a dumper of the kernel's log whose code is given
 * the reason to dump as reason. With KMSG_DUMP_SHUTDOWN as the last of them, up to which
 * dumpers are called, it is called for all.
 */
#ifdef HAVE_KMSG_DUMP_DETAIL
#define BOOTRIG_KMSG_DUMP(name)						\
static void name##_call(enum kmsg_dump_reason reason);			\
static void name##_dump(struct kmsg_dumper *dumper,			\
			struct kmsg_dump_detail *detail)		\
{									\
	name##_call(detail->reason);					\
}									\
BOOTRIG_KMSG_DUMPER(name)
#else
#define BOOTRIG_KMSG_DUMP(name)						\
static void name##_call(enum kmsg_dump_reason reason);			\
static void name##_dump(struct kmsg_dumper *dumper,			\
			enum kmsg_dump_reason reason)			\
{									\
	name##_call(reason);						\
}									\
BOOTRIG_KMSG_DUMPER(name)
#endif
#define BOOTRIG_KMSG_DUMPER(name)					\
static struct kmsg_dumper name = {					\
	.dump = name##_dump,						\
	.max_reason = KMSG_DUMP_SHUTDOWN,				\
};									\
static void name##_call(enum kmsg_dump_reason reason)

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
