// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tree of functions, from the parameters kind= and node= (docs/protocol.md).
 *
 * Parsed strictly: a bad entry fails the load and is named in the log. A node is put in
 * its place by its path alone, so that 10,000 of them load as quickly, each, as ten.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include "compat.h"
#include "parse.h"
#include "vpci.h"

#define MAX_KIND	4095U

struct vpci_bus vpci_root;

static DEFINE_XARRAY(kinds);		/* by number */
static struct vpci_node *nodes;		/* the last one made; owns the nodes */
static unsigned int buses = 1;		/* bus numbers needed */

static int refuse(const struct kernel_param *kp, const char *val, const char *why)
{
	pr_err("%s=%s: %s\n", kp->name, val, why);
	return -EINVAL;
}

/* No device has vendor 0000 or ffff: to the kernel, these are an empty slot. */
static bool take_id(const char **at, struct vpci_kind *kind)
{
	u32 vendor, device;

	if (!take_hex(at, 4, &vendor) || !take_char(at, ':') || !take_hex(at, 4, &device))
		return false;
	kind->vendor = vendor;
	kind->device = device;
	return vendor != 0 && vendor != 0xffff;
}

static bool take_header(const char **at, struct vpci_kind *kind)
{
	kind->bridge = take_word(at, "bridge");
	return kind->bridge || take_word(at, "endpoint");
}

/* The rest of the text: "-", or a driver's name. */
static bool take_driver(const char *at, struct vpci_kind *kind)
{
	if (!strcmp(at, "-"))
		return true;
	return *at && strscpy(kind->driver, at, sizeof(kind->driver)) > 0;
}

static int set_kind(const char *val, const struct kernel_param *kp)
{
	struct vpci_kind *kind;
	const char *at = val;
	u64 number;
	int ret;

	if (!take_number(&at, MAX_KIND, &number) || !take_char(&at, ':'))
		return refuse(kp, val, "must begin with a number up to 4095 and a colon");
	kind = kzalloc_obj(*kind);
	if (!kind)
		return -ENOMEM;
	ret = -EINVAL;
	if (!take_id(&at, kind) || !take_char(&at, ':')) {
		refuse(kp, val, "an ID is VVVV:DDDD and no vendor is 0000 or ffff");
		goto free;
	}
	if (!take_hex(&at, 6, &kind->class) || !take_char(&at, ':')) {
		refuse(kp, val, "a class has six hexadecimal digits");
		goto free;
	}
	if (!take_header(&at, kind) || !take_char(&at, ':')) {
		refuse(kp, val, "after the class comes endpoint or bridge");
		goto free;
	}
	/* The kernel has no use for a function whose class and header contradict. */
	if (kind->bridge != (kind->class >> 8 == PCI_CLASS_BRIDGE_PCI)) {
		refuse(kp, val, "class 0604 is a bridge's, and a bridge's only one");
		goto free;
	}
	if (!take_driver(at, kind)) {
		refuse(kp, val, "must end with a driver's name of up to 31 letters, or -");
		goto free;
	}
	ret = xa_insert(&kinds, number, kind, GFP_KERNEL);
	if (ret == -EBUSY)
		refuse(kp, val, "this number is taken by an earlier kind");
	if (ret)
		goto free;
	return 0;

free:
	kfree(kind);
	return ret;
}

/* Finds the place that a path names. */
static struct vpci_node **take_place(const char **at, const char **why)
{
	struct vpci_bus *bus = &vpci_root;
	unsigned int devfn;

	for (;;) {
		if (!take_devfn(at, &devfn)) {
			*why = "a path is SS.F, joined by /";
			return NULL;
		}
		if (!take_char(at, '/'))
			break;
		if (!bus->at[devfn] || !bus->at[devfn]->below) {
			*why = "no bridge above it comes before it";
			return NULL;
		}
		bus = bus->at[devfn]->below;
	}
	if (bus->at[devfn]) {
		*why = "this path is taken by an earlier node";
		return NULL;
	}
	if (PCI_FUNC(devfn)) {
		struct vpci_node *first = bus->at[PCI_DEVFN(PCI_SLOT(devfn), 0)];

		if (!first) {
			*why = "function 0 of its slot must come before it";
			return NULL;
		}
		/* The kernel looks at functions 1 to 7 only where function 0 says so. */
		first->config[PCI_HEADER_TYPE] |= 0x80;
	}
	return &bus->at[devfn];
}

/* Little endian, as on the bus. */
static void put(u8 *config, int where, int size, u32 value)
{
	for (; size; size--, value >>= 8)
		config[where++] = value;
}

static void fill_header(struct vpci_node *node)
{
	const struct vpci_kind *kind = node->kind;
	u8 *config = node->config;

	put(config, PCI_VENDOR_ID, 2, kind->vendor);
	put(config, PCI_DEVICE_ID, 2, kind->device);
	/* The lowest byte is the revision. */
	put(config, PCI_CLASS_REVISION, 4, kind->class << 8);
	if (kind->bridge) {
		config[PCI_HEADER_TYPE] = PCI_HEADER_TYPE_BRIDGE;
		/* It forwards neither I/O nor memory: each window ends before it begins. */
		put(config, PCI_IO_BASE, 1, 0xf0);
		put(config, PCI_MEMORY_BASE, 2, 0xfff0);
		put(config, PCI_PREF_MEMORY_BASE, 2, 0xfff0);
	} else {
		config[PCI_HEADER_TYPE] = PCI_HEADER_TYPE_NORMAL;
		put(config, PCI_SUBSYSTEM_VENDOR_ID, 2, kind->vendor);
		put(config, PCI_SUBSYSTEM_ID, 2, kind->device);
	}
}

static int set_node(const char *val, const struct kernel_param *kp)
{
	const char *at = val, *why;
	struct vpci_node *node, **place;
	struct vpci_kind *kind;
	u64 number;

	place = take_place(&at, &why);
	if (!place)
		return refuse(kp, val, why);
	if (!take_char(&at, ':') || !take_number(&at, MAX_KIND, &number) || *at)
		return refuse(kp, val, "must end with a colon and a kind's number");
	kind = xa_load(&kinds, number);
	if (!kind)
		return refuse(kp, val, "no kind of this number comes before it");
	if (kind->bridge && buses == VPCI_BUSES)
		return refuse(kp, val, "no bus number is left: a domain has 256 buses");

	node = kzalloc_obj(*node);
	if (!node)
		return -ENOMEM;
	node->kind = kind;
	if (kind->bridge) {
		node->below = kzalloc_obj(*node->below);
		if (!node->below) {
			kfree(node);
			return -ENOMEM;
		}
		buses++;
	}
	fill_header(node);
	node->next = nodes;
	nodes = node;
	*place = node;
	return 0;
}

/* The module core calls these when the module goes, and when its load fails. */

static void kinds_free(void *arg)
{
	struct vpci_kind *kind;
	unsigned long number;

	xa_for_each(&kinds, number, kind)
		kfree(kind);
	xa_destroy(&kinds);
}

static void nodes_free(void *arg)
{
	struct vpci_node *node;

	while ((node = nodes)) {
		nodes = node->next;
		kfree(node->below);
		kfree(node);
	}
}

static const struct kernel_param_ops kind_ops = {
	.set = set_kind,
	.free = kinds_free,
};
module_param_cb(kind, &kind_ops, NULL, 0);
MODULE_PARM_DESC(kind, "N:VVVV:DDDD:CCCCCC:endpoint|bridge:DRIVER, what functions are; may repeat");

static const struct kernel_param_ops node_ops = {
	.set = set_node,
	.free = nodes_free,
};
module_param_cb(node, &node_ops, NULL, 0);
MODULE_PARM_DESC(node, "PATH:N, a function at PATH is of kind N; may repeat");
