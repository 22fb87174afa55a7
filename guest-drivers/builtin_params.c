// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parameters of the other parts where they are built into the kernel: from the files that
 * PID 1 takes them from for modules (docs/protocol.md). The kernel's command line has no room
 * for a device table, and is read before there is memory for one.
 *
 * Linked before the other parts, and so run before them.
 */

#define pr_fmt(fmt) "bootrig: " fmt

#include <linux/err.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kernel_read_file.h>
#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "compat.h"

/* All parameters of whatever is built in, by the linker. */
extern const struct kernel_param __start___param[], __stop___param[];

static const struct kernel_param * __init find(const char *part, const char *name)
{
	size_t len = strlen(part);
	const struct kernel_param *kp;

	for (kp = __start___param; kp != __stop___param; kp++) {
		if (!strncmp(kp->name, part, len) && kp->name[len] == '.' &&
		    !strcmp(kp->name + len + 1, name))
			return kp;
	}
	return NULL;
}

/* As the module loader does it; parse_args() says what is wrong. */
static int __init set(char *name, char *val, const char *part, void *unused)
{
	const struct kernel_param *kp = find(part, name);
	int ret;

	if (!kp)
		return -ENOENT;
	if (!val)
		return -EINVAL;
	kernel_param_lock(kp->mod);
	ret = kp->ops->set(val, kp);
	kernel_param_unlock(kp->mod);
	return ret;
}

static int __init parse(const char *part, const void *text, size_t size)
{
	char *args = kvmalloc(size + 1, GFP_KERNEL);
	char *end;

	if (!args)
		return -ENOMEM;
	memcpy(args, text, size);
	args[size] = '\0';
	end = parse_args(part, args, NULL, 0, 0, 0, NULL, set);
	kvfree(args);
	return PTR_ERR_OR_ZERO(end);
}

static int __init read_params(const char *part)
{
	char path[64];
	void *text = NULL;
	ssize_t size;
	int ret;

	scnprintf(path, sizeof(path), "/bootrig/%s.params", part);
	size = kernel_read_file_from_path(path, 0, &text, INT_MAX, NULL, READING_UNKNOWN);
	/* A part without a file has its defaults. */
	if (size == -ENOENT)
		return 0;
	if (size < 0) {
		pr_err("%s cannot be read: %zd\n", path, size);
		return size;
	}
	ret = parse(part, text, size);
	vfree(text);
	return ret;
}

static int __init params_init(void)
{
	int ret;

	bootrig_wait_for_initramfs();
	ret = read_params("marks");
	return ret ?: read_params("dummy_pci");
}
device_initcall(params_init);
