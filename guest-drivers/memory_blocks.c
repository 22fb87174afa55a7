// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices that look like memory blocks to user space, without memory: on the kernel's own
 * "memory" subsystem, numbered on from its last block, with the attributes and uevents of a
 * block that is online. More of them fit a machine than blocks with their page structures.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "compat.h"

#define MOST_BLOCKS (1u << 20)

static unsigned int blocks;
module_param(blocks, uint, 0444);
MODULE_PARM_DESC(blocks, "how many, 1 to 1048576");

static unsigned int first;
module_param(first, uint, 0444);
MODULE_PARM_DESC(first, "the first block's number, to be read");

struct block {
	struct device dev;
	unsigned int number;
};

/* By number, from the first on; NULL where one was taken away. */
static struct block **made;
/* A block of the kernel's own, for its subsystem. */
static struct device *like;
/* Held while blocks are taken away or brought back; ready: all have been made. */
static DEFINE_MUTEX(changing);
static bool ready;

static ssize_t phys_index_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sprintf(buf, "%08x\n", container_of(dev, struct block, dev)->number);
}
static DEVICE_ATTR_RO(phys_index);

/* What is the same for all of them, as a block that is online says it. */
#define BLOCK_ATTR(name, text)							\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr,	\
			   char *buf)						\
{										\
	return sprintf(buf, text "\n");						\
}										\
static DEVICE_ATTR_RO(name)

BLOCK_ATTR(state, "online");
BLOCK_ATTR(phys_device, "0");
BLOCK_ATTR(removable, "1");
BLOCK_ATTR(valid_zones, "Normal");

static struct attribute *block_attrs[] = {
	&dev_attr_phys_index.attr,
	&dev_attr_state.attr,
	&dev_attr_phys_device.attr,
	&dev_attr_removable.attr,
	&dev_attr_valid_zones.attr,
	NULL
};
ATTRIBUTE_GROUPS(block);

static void release_block(struct device *dev)
{
	kfree(container_of(dev, struct block, dev));
}

/*
 * A device of the "memory" subsystem, with a reference, and the number after the last block.
 * Neither the subsystem nor the list of all devices is exported; each device knows the list.
 */
static struct device *last_block(struct kset *devices, unsigned int *next)
{
	struct device *found = NULL;
	struct kobject *kobj;

	spin_lock(&devices->list_lock);
	list_for_each_entry(kobj, &devices->list, entry) {
		struct device *dev = container_of(kobj, struct device, kobj);
		unsigned int number;

		if (!dev->bus || strcmp(dev->bus->name, "memory") ||
		    sscanf(dev_name(dev), "memory%u", &number) != 1)
			continue;
		if (!found)
			found = get_device(dev);
		if (number >= *next)
			*next = number + 1;
	}
	spin_unlock(&devices->list_lock);
	return found;
}

static int make_block(unsigned int number, struct block **slot)
{
	struct block *block = kzalloc_obj(*block);
	int ret;

	if (!block)
		return -ENOMEM;
	block->number = number;
	block->dev.bus = like->bus;
	block->dev.id = number;
	block->dev.groups = block_groups;
	block->dev.release = release_block;
	/* The subsystem's own callback would take it for one of its blocks. */
	bootrig_disable_offline(&block->dev);
	ret = dev_set_name(&block->dev, "memory%u", number);
	if (ret) {
		kfree(block);
		return ret;
	}
	ret = device_register(&block->dev);
	if (ret) {
		put_device(&block->dev);
		return ret;
	}
	*slot = block;
	return 0;
}

static void remove_blocks(unsigned int count)
{
	while (count--)
		if (made[count])
			device_unregister(&made[count]->dev);
	kvfree(made);
	put_device(like);
}

static int change_block(const char *value, bool add)
{
	unsigned int number;
	struct block **slot;
	int ret = kstrtouint(value, 10, &number);

	if (ret)
		return ret;
	mutex_lock(&changing);
	ret = -ENODEV;
	if (!ready || number < first || number - first >= blocks)
		goto out;
	slot = &made[number - first];
	if (add) {
		ret = *slot ? -EEXIST : make_block(number, slot);
	} else if (*slot) {
		device_unregister(&(*slot)->dev);
		*slot = NULL;
		ret = 0;
	}
out:
	mutex_unlock(&changing);
	return ret;
}

static int add_set(const char *value, const struct kernel_param *param)
{
	return change_block(value, true);
}

static int remove_set(const char *value, const struct kernel_param *param)
{
	return change_block(value, false);
}

static const struct kernel_param_ops add_ops = { .set = add_set };
module_param_cb(add, &add_ops, NULL, 0200);
MODULE_PARM_DESC(add, "number of a block that was taken away: brings it back");

static const struct kernel_param_ops remove_ops = { .set = remove_set };
module_param_cb(remove, &remove_ops, NULL, 0200);
MODULE_PARM_DESC(remove, "number of a block: takes it away");

static int __init memory_blocks_init(void)
{
	struct device *root;
	unsigned int count;
	int ret;

	if (!blocks || blocks > MOST_BLOCKS) {
		pr_err("blocks=%u is not 1 to %u\n", blocks, MOST_BLOCKS);
		return -EINVAL;
	}
	root = root_device_register("bootrig-memory");
	if (IS_ERR(root))
		return PTR_ERR(root);
	first = 0;
	like = last_block(root->kobj.kset, &first);
	root_device_unregister(root);
	if (!like) {
		pr_err("this kernel shows no memory blocks: CONFIG_MEMORY_HOTPLUG is needed\n");
		return -ENODEV;
	}
	made = kvcalloc(blocks, sizeof(*made), GFP_KERNEL);
	if (!made) {
		put_device(like);
		return -ENOMEM;
	}
	for (count = 0; count < blocks; count++) {
		ret = make_block(first + count, &made[count]);
		if (ret) {
			pr_err("making block %u failed with %d\n", first + count, ret);
			remove_blocks(count);
			return ret;
		}
		cond_resched();
	}
	mutex_lock(&changing);
	ready = true;
	mutex_unlock(&changing);
	return 0;
}

static void __exit memory_blocks_exit(void)
{
	mutex_lock(&changing);
	ready = false;
	mutex_unlock(&changing);
	remove_blocks(blocks);
}

module_init(memory_blocks_init);
module_exit(memory_blocks_exit);
MODULE_DESCRIPTION("bootrig: devices that look like memory blocks");
MODULE_LICENSE("GPL");
