// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device table, from the parameters profile=, firmware=, dev= and fault=
 * (docs/protocol.md).
 *
 * Parsed strictly: a bad entry fails the load and is named in the log. Looked up by path
 * in constant time, so that 10,000 devices load as quickly, each, as ten.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/xarray.h>

#include "compat.h"
#include "dummy_pci.h"
#include "parse.h"
#include "vpci.h"

#define MAX_PROFILE	4095U
#define MAX_DEVICE	1048575U
#define MAX_FIRMWARE	(64U << 20)
#define MAX_NS		(3600ULL * NSEC_PER_SEC)

/*
 * A path as a number: nine bits a level, 0x100 + slot and function, so that paths of
 * different length never coincide and the functions of one bridge are neighbours.
 */
#define LEVEL_BITS	9
#define LEVEL_SET	0x100ULL
#define MAX_LEVELS	7
/* Of paths in vpci's domain: the bit that seven levels leave. */
#define IN_VPCI		(1ULL << (MAX_LEVELS * LEVEL_BITS))

static DEFINE_XARRAY(profiles);		/* by profile number */
static DEFINE_XARRAY(devices);		/* by device number; owns the devices */
static DEFINE_XARRAY(paths);		/* by path */

static bool take_step(const char **at, struct dummy_step *step)
{
	char kind = **at;

	if (!kind || !strchr("swpbct", kind))
		return false;
	(*at)++;
	step->kind = kind;
	if (kind == 't')
		return true;
	if (!take_number(at, MAX_NS, &step->ns))
		return false;
	if (kind != 'p')
		return true;
	return take_char(at, '/') && take_number(at, MAX_NS, &step->every_ns) && step->every_ns;
}

/* "-", or steps joined by "+". */
static bool take_steps(const char **at, struct dummy_step *steps)
{
	int i;

	if (take_char(at, '-'))
		return true;
	for (i = 0; i < DUMMY_STEPS; i++) {
		if (!take_step(at, &steps[i]))
			return false;
		if (!take_char(at, '+'))
			return true;
	}
	return false;
}

static bool take_lock(const char **at, unsigned int *lock)
{
	u64 number;

	*lock = DUMMY_NO_LOCK;
	if (take_char(at, '-'))
		return true;
	if (!take_number(at, DUMMY_LOCKS - 1, &number))
		return false;
	*lock = number;
	return true;
}

/* In domain 0, or where it says so in vpci's. */
static bool take_path(const char **at, u64 *path)
{
	u64 domain = take_word(at, VPCI_DOMAIN_PREFIX) ? IN_VPCI : 0;
	unsigned int devfn;
	int i;

	*path = 0;
	for (i = 0; i < MAX_LEVELS; i++) {
		if (!take_devfn(at, &devfn))
			return false;
		*path = *path << LEVEL_BITS | LEVEL_SET | devfn;
		if (!take_char(at, '/')) {
			*path |= domain;
			return true;
		}
	}
	return false;
}

static int refuse(const struct kernel_param *kp, const char *val, const char *why)
{
	pr_err("%s=%s: %s\n", kp->name, val, why);
	return -EINVAL;
}

static int profile_set(const char *val, const struct kernel_param *kp)
{
	struct dummy_profile *profile;
	const char *at = val;
	u64 number;
	int op, ret;

	if (!take_number(&at, MAX_PROFILE, &number) || !take_char(&at, ':'))
		return refuse(kp, val, "must begin with a number up to 4095 and a colon");
	profile = kzalloc_obj(*profile);
	if (!profile)
		return -ENOMEM;
	ret = -EINVAL;
	for (op = 0; op < DUMMY_OPS; op++) {
		if (!take_steps(&at, profile->steps[op]) || !take_char(&at, ':')) {
			refuse(kp, val, "a callback is - or up to 16 of sN wN pN/N bN cN t with +");
			goto free;
		}
	}
	if (!take_lock(&at, &profile->lock) || *at) {
		refuse(kp, val, "must end with a lock: - or 0 to 15");
		goto free;
	}
	ret = xa_insert(&profiles, number, profile, GFP_KERNEL);
	if (ret == -EBUSY)
		refuse(kp, val, "this number is taken by an earlier profile");
	if (ret)
		goto free;
	return 0;

free:
	kfree(profile);
	return ret;
}

static int firmware_read(const char *at, struct dummy_firmware *firmware)
{
	size_t len = strcspn(at, ":");
	u64 size, page, sector;

	if (!len || len >= sizeof(firmware->file) || at[len] != ':')
		return -EINVAL;
	memcpy(firmware->file, at, len);
	at += len + 1;
	if (!take_number(&at, MAX_FIRMWARE, &size) || !take_char(&at, ':') ||
	    !take_number(&at, MAX_FIRMWARE, &sector) || !take_char(&at, ':') ||
	    !take_step(&at, &firmware->erase) || !take_char(&at, ':') ||
	    !take_number(&at, MAX_FIRMWARE, &page) || !take_char(&at, ':') ||
	    !take_step(&at, &firmware->program) || *at)
		return -EINVAL;
	if (!size || !sector || !page || page > sector)
		return -EINVAL;
	firmware->size = size;
	firmware->page = page;
	firmware->sector = sector;
	return 0;
}

static int firmware_set(const char *val, const struct kernel_param *kp)
{
	struct dummy_firmware *firmware;
	struct dummy_profile *profile;
	const char *at = val;
	u64 number;
	int ret;

	if (!take_number(&at, MAX_PROFILE, &number) || !take_char(&at, ':'))
		return refuse(kp, val, "must begin with a number up to 4095 and a colon");
	profile = xa_load(&profiles, number);
	if (!profile)
		return refuse(kp, val, "no profile of this number comes before it");
	if (profile->firmware)
		return refuse(kp, val, "this profile has firmware already");
	firmware = kzalloc_obj(*firmware);
	if (!firmware)
		return -ENOMEM;
	ret = firmware_read(at, firmware);
	if (ret) {
		kfree(firmware);
		return refuse(kp, val, "must go on with FILE:SIZE:SECTOR:STEP:PAGE:STEP");
	}
	profile->firmware = firmware;
	return 0;
}

static int device_set(const char *val, const struct kernel_param *kp)
{
	struct dummy_profile *profile;
	struct dummy_device *device;
	const char *at = val;
	u64 number, path, used;
	int ret;

	if (!take_number(&at, MAX_DEVICE, &number) || !take_char(&at, ':'))
		return refuse(kp, val, "must begin with a number up to 1048575 and a colon");
	if (!take_path(&at, &path) || !take_char(&at, ':'))
		return refuse(kp, val, "a path is up to 7 of SS.F joined by /, then a colon");
	if (!take_number(&at, MAX_PROFILE, &used) || *at)
		return refuse(kp, val, "must end with a profile's number");
	profile = xa_load(&profiles, used);
	if (!profile)
		return refuse(kp, val, "no profile of this number comes before it");

	device = kzalloc_obj(*device);
	if (!device)
		return -ENOMEM;
	device->number = number;
	device->profile = profile;
	ret = xa_insert(&devices, number, device, GFP_KERNEL);
	if (ret) {
		if (ret == -EBUSY)
			refuse(kp, val, "this number is taken by an earlier device");
		kfree(device);
		return ret;
	}
	/* From here on the table owns the device, also when the load fails. */
	ret = xa_insert(&paths, path, device, GFP_KERNEL);
	if (ret == -EBUSY)
		refuse(kp, val, "this path is taken by an earlier device");
	return ret;
}

static int fault_set(const char *val, const struct kernel_param *kp)
{
	static const char * const kinds[] = {
		[DUMMY_SOUND] = "",
		[DUMMY_ERROR] = "error",
		[DUMMY_DEFER] = "defer",
		[DUMMY_NEVER_RETURNS] = "never-returns",
	};
	struct dummy_device *device;
	const char *at = val;
	u64 number;
	int kind;

	if (!take_number(&at, MAX_DEVICE, &number) || !take_char(&at, ':'))
		return refuse(kp, val, "must begin with a number up to 1048575 and a colon");
	device = xa_load(&devices, number);
	if (!device)
		return refuse(kp, val, "no device of this number comes before it");
	kind = match_string(kinds, ARRAY_SIZE(kinds), at);
	if (kind <= DUMMY_SOUND)
		return refuse(kp, val, "must end with error, defer or never-returns");
	device->fault = kind;
	return 0;
}

/* The module core calls these when the module goes, and when its load fails. */

static void profiles_free(void *arg)
{
	struct dummy_profile *profile;
	unsigned long number;

	xa_for_each(&profiles, number, profile) {
		kfree(profile->firmware);
		kfree(profile);
	}
	xa_destroy(&profiles);
}

static void devices_free(void *arg)
{
	struct dummy_device *device;
	unsigned long number;

	xa_for_each(&devices, number, device)
		kfree(device);
	xa_destroy(&devices);
	xa_destroy(&paths);
}

static const struct kernel_param_ops profile_ops = {
	.set = profile_set,
	.free = profiles_free,
};
module_param_cb(profile, &profile_ops, NULL, 0);
MODULE_PARM_DESC(profile, "N:PROBE:SHUTDOWN:REMOVE:LOCK, delays of a kind of device; may repeat");

static const struct kernel_param_ops device_ops = {
	.set = device_set,
	.free = devices_free,
};
module_param_cb(dev, &device_ops, NULL, 0);
MODULE_PARM_DESC(dev, "I:PATH:N, device I at PATH has profile N; may repeat");

static const struct kernel_param_ops firmware_ops = {
	.set = firmware_set,
};
module_param_cb(firmware, &firmware_ops, NULL, 0);
MODULE_PARM_DESC(firmware, "N:FILE:SIZE:SECTOR:STEP:PAGE:STEP, what profile N writes into flash memory at probe; may repeat");

static const struct kernel_param_ops fault_ops = {
	.set = fault_set,
};
module_param_cb(fault, &fault_ops, NULL, 0);
MODULE_PARM_DESC(fault, "I:FAULT, the probe of device I ends in error, defer or never-returns; may repeat");

/**
 * dummy_numbered - look a device up by its number
 * @number: in the scenario
 *
 * Return: its line, or NULL if there is none.
 */
struct dummy_device *dummy_numbered(u32 number)
{
	return xa_load(&devices, number);
}

/**
 * dummy_find - look a PCI device up in the table
 * @pdev: the device
 *
 * Return: its line, or NULL if it is not ours.
 */
struct dummy_device *dummy_find(struct pci_dev *pdev)
{
	unsigned int shift = 0;
	u64 path = 0;

	for (;; pdev = pdev->bus->self) {
		if (shift == MAX_LEVELS * LEVEL_BITS)
			return NULL;
		path |= (LEVEL_SET | pdev->devfn) << shift;
		shift += LEVEL_BITS;
		if (pci_is_root_bus(pdev->bus))
			break;
		/* Virtual functions sit on a bus without a bridge. */
		if (!pdev->bus->self)
			return NULL;
	}
	/* Paths start at the first root bus of a domain. */
	if (pdev->bus->number)
		return NULL;
	switch (pci_domain_nr(pdev->bus)) {
	case 0:
		return xa_load(&paths, path);
	case VPCI_DOMAIN:
		return xa_load(&paths, path | IN_VPCI);
	default:
		return NULL;
	}
}

/**
 * dummy_computes - tell whether any device computes
 *
 * Return: true if a step of any profile is 'c'.
 */
bool dummy_computes(void)
{
	struct dummy_profile *profile;
	struct dummy_step *step;
	unsigned long number;
	int op;

	xa_for_each(&profiles, number, profile) {
		for (op = 0; op < DUMMY_OPS; op++) {
			for (step = profile->steps[op]; step->kind; step++) {
				if (step->kind == 'c')
					return true;
			}
		}
	}
	return false;
}
