// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads firmware as a network card's driver does: the file is asked for in the ordinary way,
 * checked, and written into flash memory, a sector erased at a time and a page programmed at
 * a time. The flash memory's waits are the profile's.
 */

#include <linux/errno.h>
#include <linux/firmware.h>
#include <linux/minmax.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "dummy_pci.h"

/* The file begins with this, and its own size in eight bytes, little endian. */
#define MAGIC		"bootrig\n"
#define HEADER		16

static int check(const struct dummy_firmware *want, const struct firmware *fw, struct device *dev)
{
	__le64 said;

	if (fw->size < HEADER || memcmp(fw->data, MAGIC, 8)) {
		dev_err(dev, "%s is no firmware\n", want->file);
		return -EINVAL;
	}
	memcpy(&said, fw->data + 8, sizeof(said));
	if (fw->size != want->size || le64_to_cpu(said) != want->size) {
		dev_err(dev, "%s has %zu bytes, not %u\n", want->file, fw->size, want->size);
		return -EINVAL;
	}
	return 0;
}

static int write_flash(const struct dummy_firmware *want, const struct firmware *fw)
{
	u8 *page;
	u32 at;
	int ret = 0;

	page = kmalloc(want->page, GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	for (at = 0; at < want->size && !ret; at += want->sector)
		ret = dummy_step(&want->erase);
	for (at = 0; at < want->size && !ret; at += want->page) {
		memcpy(page, fw->data + at, min(want->page, want->size - at));
		ret = dummy_step(&want->program);
	}
	kfree(page);
	return ret;
}

/**
 * dummy_load_firmware - get a device's firmware and write it into the device
 * @want: which, and what that takes
 * @dev: the device
 *
 * Return: 0, or what request_firmware() said, or -EINVAL for a file that is not whole.
 */
int dummy_load_firmware(const struct dummy_firmware *want, struct device *dev)
{
	const struct firmware *fw;
	int ret;

	ret = request_firmware(&fw, want->file, dev);
	if (ret)
		return ret;
	ret = check(want, fw, dev);
	if (!ret)
		ret = write_flash(want, fw);
	release_firmware(fw);
	return ret;
}
