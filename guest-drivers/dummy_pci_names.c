// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names with numbers, as eth0 or nvme1, from the parameter name= (docs/protocol.md). They are
 * given out at the end of probe, first come, first served: who has which depends on the order
 * in which devices are ready.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device.h>
#include <linux/err.h>
#include <linux/idr.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "compat.h"
#include "dummy_pci.h"
#include "parse.h"

/**
 * struct dummy_prefix - what names begin with
 * @entry: in prefixes
 * @numbers: those that are taken
 * @text: the letters
 */
struct dummy_prefix {
	struct list_head entry;
	struct ida numbers;
	char text[16];
};

static LIST_HEAD(prefixes);
static struct class *class;

static struct dummy_prefix *find_prefix(const char *text)
{
	struct dummy_prefix *prefix;

	list_for_each_entry(prefix, &prefixes, entry) {
		if (!strcmp(prefix->text, text))
			return prefix;
	}
	prefix = kzalloc_obj(*prefix);
	if (!prefix)
		return NULL;
	strscpy(prefix->text, text, sizeof(prefix->text));
	ida_init(&prefix->numbers);
	list_add_tail(&prefix->entry, &prefixes);
	return prefix;
}

static int refuse(const struct kernel_param *kp, const char *val, const char *why)
{
	pr_err("%s=%s: %s\n", kp->name, val, why);
	return -EINVAL;
}

static int name_set(const char *val, const struct kernel_param *kp)
{
	struct dummy_device *device;
	const char *at = val;
	size_t len;
	u64 number;

	if (!take_number(&at, U32_MAX, &number) || !take_char(&at, ':'))
		return refuse(kp, val, "must begin with a device's number and a colon");
	device = dummy_numbered(number);
	if (!device)
		return refuse(kp, val, "no device of this number comes before it");
	if (device->prefix)
		return refuse(kp, val, "this device has a name already");
	for (len = 0; islower(at[len]); len++)
		;
	if (!len || at[len] || len >= sizeof(device->prefix->text))
		return refuse(kp, val, "a name begins with 1 to 15 small letters, and only they are given");
	device->prefix = find_prefix(at);
	return device->prefix ? 0 : -ENOMEM;
}

/* The module core calls this when the module goes, and when its load fails. */
static void prefixes_free(void *arg)
{
	struct dummy_prefix *prefix, *next;

	list_for_each_entry_safe(prefix, next, &prefixes, entry) {
		list_del(&prefix->entry);
		ida_destroy(&prefix->numbers);
		kfree(prefix);
	}
}

static const struct kernel_param_ops name_ops = {
	.set = name_set,
	.free = prefixes_free,
};
module_param_cb(name, &name_ops, NULL, 0);
MODULE_PARM_DESC(name, "I:PREFIX, device I gets a name of PREFIX and the next free number; may repeat");

/**
 * dummy_names_init - prepare for dummy_name()
 *
 * Return: 0, or an error.
 */
int dummy_names_init(void)
{
	if (list_empty(&prefixes))
		return 0;
	class = bootrig_class_create("bootrig");
	return PTR_ERR_OR_ZERO(class);
}

/**
 * dummy_names_exit - undo dummy_names_init()
 */
void dummy_names_exit(void)
{
	if (!IS_ERR_OR_NULL(class))
		class_destroy(class);
	class = NULL;
}

/**
 * dummy_name - give a device its name, if it is to have one
 * @device: its line of the table
 * @parent: the device
 *
 * Return: 0, or an error.
 */
int dummy_name(struct dummy_device *device, struct device *parent)
{
	struct dummy_prefix *prefix = device->prefix;
	struct device *named;
	int number;

	if (!prefix)
		return 0;
	number = ida_alloc(&prefix->numbers, GFP_KERNEL);
	if (number < 0)
		return number;
	named = device_create(class, parent, MKDEV(0, 0), NULL, "%s%d", prefix->text, number);
	if (IS_ERR(named)) {
		ida_free(&prefix->numbers, number);
		return PTR_ERR(named);
	}
	device->named = named;
	device->name_number = number;
	marks_name(device->number, number);
	return 0;
}

/**
 * dummy_unname - take a device's name away, if it has one
 * @device: its line of the table
 */
void dummy_unname(struct dummy_device *device)
{
	if (!device->named)
		return;
	device_unregister(device->named);
	ida_free(&device->prefix->numbers, device->name_number);
	device->named = NULL;
}
