// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who probes the devices, from the parameter probe= (docs/protocol.md): the task that loads
 * the module, a thread or a work item of the driver's own, the kernel's asynchronous probing,
 * or a thread for each device.
 *
 * Whoever it is, registering the driver, which is driver_attach() and little more, lies
 * between the same two marks, taken by the task that registers.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/device.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "dummy_pci.h"

enum strategy {
	SYNC,
	KTHREAD,
	WORKQUEUE,
	ASYNC_PREFER,
	DEVICE_KTHREAD,
};

static const char * const names[] = {
	[SYNC] = "sync",
	[KTHREAD] = "kthread",
	[WORKQUEUE] = "workqueue",
	[ASYNC_PREFER] = "async-prefer",
	[DEVICE_KTHREAD] = "per-device-kthread",
};

static enum strategy strategy = SYNC;

static int probe_set(const char *val, const struct kernel_param *kp)
{
	int found = match_string(names, ARRAY_SIZE(names), val);

	if (found < 0) {
		pr_err("%s=%s: there is no such strategy\n", kp->name, val);
		return -EINVAL;
	}
	strategy = found;
	return 0;
}

static const struct kernel_param_ops probe_ops = {
	.set = probe_set,
};
module_param_cb(probe, &probe_ops, NULL, 0);
MODULE_PARM_DESC(probe, "who probes: sync (default), kthread, workqueue, async-prefer or per-device-kthread");

static struct pci_driver *driver;
static bool registered;

/* What driver_attach() takes, as the task sees it that registers the driver. */
static int attach(void)
{
	int ret;

	marks_point(MARKS_ATTACH_BEGIN);
	ret = pci_register_driver(driver);
	marks_point(MARKS_ATTACH_END);
	registered = !ret;
	return ret;
}

static void attach_elsewhere(void)
{
	int ret = attach();

	if (ret)
		pr_err("the driver could not be registered: %d\n", ret);
	marks_idle();
}

/* Threads are known by a reference, so that whoever stops one waits for its very end. */
static struct task_struct *start(int (*function)(void *), void *data, const char *name)
{
	struct task_struct *task = kthread_create(function, data, "%s", name);

	if (!IS_ERR(task)) {
		get_task_struct(task);
		wake_up_process(task);
	}
	return task;
}

static void stop(struct task_struct *task)
{
	kthread_stop(task);
	put_task_struct(task);
}

static struct task_struct *attacher;

static int attach_thread(void *unused)
{
	attach_elsewhere();
	return 0;
}

static int start_kthread(void)
{
	marks_busy();
	attacher = start(attach_thread, NULL, "dummy_attach");
	if (!IS_ERR(attacher))
		return 0;
	marks_idle();
	return PTR_ERR(attacher);
}

static void attach_work(struct work_struct *work)
{
	attach_elsewhere();
}

static DECLARE_WORK(work, attach_work);

static int start_work(void)
{
	marks_busy();
	queue_work(bootrig_unbound_wq, &work);
	return 0;
}

/*
 * A thread for each device. Registering the driver would probe them one by one: while they
 * are held back it takes none of them. Each thread then has the driver core try its device.
 */

/**
 * struct binder - a thread that binds one device
 * @entry: in binders
 * @task: the thread
 * @dev: its device, with a reference
 */
struct binder {
	struct list_head entry;
	struct task_struct *task;
	struct device *dev;
};

static LIST_HEAD(binders);
static atomic_t left = ATOMIC_INIT(0);
static bool held;

/**
 * dummy_is_held - whether devices are not to be bound yet
 *
 * Return: true while threads for them are still to come.
 */
bool dummy_is_held(void)
{
	return READ_ONCE(held);
}

static void one_less(void)
{
	if (atomic_dec_and_test(&left)) {
		marks_point(MARKS_ATTACH_END);
		marks_idle();
	}
}

static int bind_thread(void *data)
{
	struct binder *binder = data;

	/* That it was not bound is in its record. */
	(void)!device_attach(binder->dev);
	one_less();
	return 0;
}

static void start_binder(struct pci_dev *pdev)
{
	struct binder *binder = kzalloc_obj(*binder);

	atomic_inc(&left);
	if (binder) {
		binder->dev = get_device(&pdev->dev);
		binder->task = start(bind_thread, binder, "dummy_bind");
		if (!IS_ERR(binder->task)) {
			list_add_tail(&binder->entry, &binders);
			return;
		}
		put_device(binder->dev);
		kfree(binder);
	}
	/* Without a thread, here: no device goes without. */
	(void)!device_attach(&pdev->dev);
	one_less();
}

static int start_binders(void)
{
	struct pci_dev *pdev = NULL;
	int ret;

	marks_point(MARKS_ATTACH_BEGIN);
	WRITE_ONCE(held, true);
	ret = pci_register_driver(driver);
	WRITE_ONCE(held, false);
	if (ret) {
		marks_point(MARKS_ATTACH_END);
		return ret;
	}
	registered = true;
	marks_busy();
	/* Not to be the last before all are there. */
	atomic_inc(&left);
	for_each_pci_dev(pdev) {
		if (dummy_find(pdev))
			start_binder(pdev);
	}
	one_less();
	return 0;
}

static void stop_binders(void)
{
	struct binder *binder, *next;

	list_for_each_entry_safe(binder, next, &binders, entry) {
		stop(binder->task);
		put_device(binder->dev);
		list_del(&binder->entry);
		kfree(binder);
	}
}

/**
 * dummy_attach - register the driver, so that its devices are probed as the strategy says
 * @what: the driver
 *
 * Return: 0, or an error: then nothing is registered.
 */
int dummy_attach(struct pci_driver *what)
{
	driver = what;
	switch (strategy) {
	case KTHREAD:
		return start_kthread();
	case WORKQUEUE:
		return start_work();
	case DEVICE_KTHREAD:
		return start_binders();
	case ASYNC_PREFER:
		driver->driver.probe_type = PROBE_PREFER_ASYNCHRONOUS;
		break;
	case SYNC:
		break;
	}
	return attach();
}

/**
 * dummy_detach - undo dummy_attach(), once it is through
 * @what: the driver
 */
void dummy_detach(struct pci_driver *what)
{
	if (attacher)
		stop(attacher);
	flush_work(&work);
	stop_binders();
	if (registered)
		pci_unregister_driver(what);
}
