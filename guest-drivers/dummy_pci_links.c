// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dependencies between devices, and the order in which the kernel lists them, from the
 * parameters link= and first= (docs/protocol.md).
 *
 * Links are made when the module is loaded, before its driver is there. What a link does
 * to the order of shutting down is up to the kernel: that is what is tested.
 *
 * A device that is removed takes its links along, and stays here as no more than a
 * reference.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device.h>
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/reboot.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "compat.h"
#include "dummy_pci.h"

/**
 * struct dummy_link - one link=
 * @entry: in links
 * @consumer: number of the device that depends
 * @supplier: number of the device that it depends on
 * @kind: 'o' orders, 's' is for sync_state() only
 */
struct dummy_link {
	struct list_head entry;
	u32 consumer;
	u32 supplier;
	char kind;
};

/**
 * struct dummy_first - one first=
 * @entry: in firsts
 * @number: the device
 */
struct dummy_first {
	struct list_head entry;
	u32 number;
};

static LIST_HEAD(links);
static LIST_HEAD(firsts);

/*
 * The devices that both name, by number: struct device with a reference held, or, until
 * it is found, NOT_FOUND. Consumers of 's' links are marked.
 */
static DEFINE_XARRAY(named);
#define NOT_FOUND	xa_mk_value(0)
#define UNBOUND		XA_MARK_1

static int refuse(const struct kernel_param *kp, const char *val, const char *why)
{
	pr_err("%s=%s: %s\n", kp->name, val, why);
	return -EINVAL;
}

static int name_device(u32 number)
{
	int ret = xa_insert(&named, number, NOT_FOUND, GFP_KERNEL);

	return ret == -EBUSY ? 0 : ret;
}

static bool link_is_known(u32 consumer, u32 supplier)
{
	struct dummy_link *link;

	list_for_each_entry(link, &links, entry) {
		if (link->consumer == consumer && link->supplier == supplier)
			return true;
	}
	return false;
}

static int link_set(const char *val, const struct kernel_param *kp)
{
	unsigned int consumer, supplier;
	struct dummy_link *link;
	int end = 0, ret;
	char kind;

	/* Seven digits fit into an integer; what is no device's number is not found. */
	if (sscanf(val, "%7u:%7u:%c%n", &consumer, &supplier, &kind, &end) != 3 || val[end])
		return refuse(kp, val, "must be two devices' numbers and a kind, joined by :");
	if (kind != 'o' && kind != 's')
		return refuse(kp, val, "the kind is o or s");
	if (consumer == supplier)
		return refuse(kp, val, "a device cannot depend on itself");
	if (link_is_known(consumer, supplier))
		return refuse(kp, val, "there is an earlier link of the same devices");
	ret = name_device(consumer);
	if (!ret)
		ret = name_device(supplier);
	if (ret)
		return ret;
	if (kind == 's')
		xa_set_mark(&named, consumer, UNBOUND);

	link = kzalloc_obj(*link);
	if (!link)
		return -ENOMEM;
	link->consumer = consumer;
	link->supplier = supplier;
	link->kind = kind;
	list_add_tail(&link->entry, &links);
	return 0;
}

static int first_set(const char *val, const struct kernel_param *kp)
{
	struct dummy_first *first;
	unsigned int number;
	int end = 0, ret;

	if (sscanf(val, "%7u%n", &number, &end) != 1 || val[end])
		return refuse(kp, val, "must be a device's number");
	list_for_each_entry(first, &firsts, entry) {
		if (first->number == number)
			return refuse(kp, val, "is there already");
	}
	ret = name_device(number);
	if (ret)
		return ret;

	first = kzalloc_obj(*first);
	if (!first)
		return -ENOMEM;
	first->number = number;
	list_add_tail(&first->entry, &firsts);
	return 0;
}

/* The module core calls these when the module goes, and when its load fails. */

static void links_free(void *arg)
{
	struct dummy_link *link, *next;

	list_for_each_entry_safe(link, next, &links, entry) {
		list_del(&link->entry);
		kfree(link);
	}
	xa_destroy(&named);
}

static void firsts_free(void *arg)
{
	struct dummy_first *first, *next;

	list_for_each_entry_safe(first, next, &firsts, entry) {
		list_del(&first->entry);
		kfree(first);
	}
	xa_destroy(&named);
}

static const struct kernel_param_ops link_ops = {
	.set = link_set,
	.free = links_free,
};
module_param_cb(link, &link_ops, NULL, 0);
MODULE_PARM_DESC(link, "C:S:K, device C depends on device S; K is o (orders) or s (sync_state only); may repeat");

static const struct kernel_param_ops first_ops = {
	.set = first_set,
	.free = firsts_free,
};
module_param_cb(first, &first_ops, NULL, 0);
MODULE_PARM_DESC(first, "I, device I is the first on the list to be shut down; may repeat");

/* All in one pass: looking for each alone would take time that grows with the square. */
static int find_named(void)
{
	struct pci_dev *pdev = NULL;
	unsigned long number;
	void *entry;

	for_each_pci_dev(pdev) {
		const struct dummy_device *device = dummy_find(pdev);

		/* The entry is there already, so that storing needs no memory. */
		if (device && xa_load(&named, device->number) == NOT_FOUND)
			xa_store(&named, device->number, get_device(&pdev->dev), GFP_KERNEL);
	}
	xa_for_each(&named, number, entry) {
		if (entry == NOT_FOUND) {
			pr_err("device %lu of link= or first= is not there\n", number);
			return -ENODEV;
		}
	}
	return 0;
}

static int add_link(const struct dummy_link *link)
{
	u32 flags = link->kind == 's' ? DL_FLAG_SYNC_STATE_ONLY : DL_FLAG_STATELESS;

	if (device_link_add(xa_load(&named, link->consumer), xa_load(&named, link->supplier),
			    flags))
		return 0;
	pr_err("link=%u:%u:%c: the kernel refuses it: the supplier depends on the consumer, or the consumer is bound\n",
	       link->consumer, link->supplier, link->kind);
	return -EINVAL;
}

/*
 * By its ends, as there may be no link any more. One for sync_state() is the kernel's own
 * from the beginning: nobody else may drop it.
 */
static void remove_link(const struct dummy_link *link)
{
	if (link->kind == 'o')
		device_link_remove(xa_load(&named, link->consumer),
				   xa_load(&named, link->supplier));
}

static int add_links(void)
{
	struct dummy_link *link;
	int ret;

	list_for_each_entry(link, &links, entry) {
		ret = add_link(link);
		if (ret)
			goto remove;
	}
	return 0;

remove:
	list_for_each_entry_continue_reverse(link, &links, entry)
		remove_link(link);
	return ret;
}

static void put_named(void)
{
	unsigned long number;
	void *entry;

	xa_for_each(&named, number, entry) {
		if (entry != NOT_FOUND)
			put_device(entry);
	}
	xa_destroy(&named);
}

/* The list is walked from its end. A device that is removed is on no list. */
static void move_last(struct device *dev)
{
	struct kset *kset = dev->kobj.kset;

	spin_lock(&kset->list_lock);
	if (!list_empty(&dev->kobj.entry))
		list_move_tail(&dev->kobj.entry, &kset->list);
	spin_unlock(&kset->list_lock);
}

static int before_devices(struct notifier_block *nb, unsigned long action, void *data)
{
	struct dummy_first *first;

	list_for_each_entry_reverse(first, &firsts, entry)
		move_last(xa_load(&named, first->number));
	return NOTIFY_DONE;
}

/* Late, as others may add devices; the mark that the walk begins comes after it. */
static struct notifier_block notifier = {
	.notifier_call = before_devices,
	.priority = INT_MIN + 1,
};

/**
 * dummy_links_init - make the links, and be there when the walk begins
 *
 * To be called before the driver is registered.
 *
 * Return: 0, or an error, which has been logged.
 */
int dummy_links_init(void)
{
	int ret;

	if (xa_empty(&named))
		return 0;
	ret = find_named();
	if (ret)
		goto put;
	ret = add_links();
	if (ret)
		goto put;
	ret = register_reboot_notifier(&notifier);
	if (!ret)
		return 0;

	dummy_links_exit();
	return ret;

put:
	put_named();
	return ret;
}

/**
 * dummy_links_exit - undo dummy_links_init()
 */
void dummy_links_exit(void)
{
	struct dummy_link *link;

	if (xa_empty(&named))
		return;
	/* That it is not registered is no error here. */
	unregister_reboot_notifier(&notifier);
	list_for_each_entry_reverse(link, &links, entry)
		remove_link(link);
	put_named();
}

/**
 * dummy_stays_unbound - whether a device of the table must not be bound
 * @device: the device
 *
 * A link for sync_state() exists only while its consumer is unbound: binding drops it.
 *
 * Return: true for consumers of such links.
 */
bool dummy_stays_unbound(const struct dummy_device *device)
{
	return xa_get_mark(&named, device->number, UNBOUND);
}
