// SPDX-License-Identifier: GPL-2.0-only
/*
 * A PCI host bridge that exists in the guest alone, in a domain of its own beside the
 * machine's: any tree (vpci_table.c), any ID, as many devices as bus numbers reach.
 *
 * Config space is memory. Functions have no BARs, no interrupts and no capabilities, so
 * that pci_enable_device() finds nothing to enable; bridges route by the secondary bus
 * number that the PCI core gives them, and forward nothing but config accesses.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ioport.h>
#include <linux/module.h>
#include <linux/numa.h>
#include <linux/pci.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "vpci.h"

/* Config space of a conventional device. */
#define CONFIG_SIZE	256

static struct pci_host_bridge *host;
static struct pci_sysdata sysdata = {
	.domain = VPCI_DOMAIN,
	.node = NUMA_NO_NODE,
};

static struct resource bus_numbers = {
	.name = "vpci",
	.start = 0,
	.end = VPCI_BUSES - 1,
	.flags = IORESOURCE_BUS,
};

/* Protects config spaces and behind. The PCI core may hold a raw lock, or none. */
static DEFINE_RAW_SPINLOCK(lock);
static struct vpci_bus *behind[VPCI_BUSES] = { &vpci_root };	/* by bus number */

static struct vpci_node *find(struct pci_bus *bus, unsigned int devfn)
{
	struct vpci_bus *table = behind[bus->number];

	return table ? table->at[devfn] : NULL;
}

static int config_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	struct vpci_node *node;
	unsigned long flags;
	int i;

	*value = ~0U;
	raw_spin_lock_irqsave(&lock, flags);
	node = find(bus, devfn);
	if (node && where < CONFIG_SIZE) {
		*value = 0;
		for (i = 0; i < size && where + i < VPCI_HEADER; i++)
			*value |= (u32)node->config[where + i] << (8 * i);
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	return node ? PCIBIOS_SUCCESSFUL : PCIBIOS_DEVICE_NOT_FOUND;
}

/* Which bits of a byte of config space can be written. */
static u8 writable(const struct vpci_node *node, int where)
{
	switch (where) {
	case PCI_COMMAND:
		return PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
	case PCI_COMMAND + 1:
		return (PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE) >> 8;
	case PCI_CACHE_LINE_SIZE:
	case PCI_LATENCY_TIMER:
	case PCI_INTERRUPT_LINE:
		return 0xff;
	case PCI_PRIMARY_BUS:
	case PCI_SECONDARY_BUS:
	case PCI_SUBORDINATE_BUS:
	case PCI_SEC_LATENCY_TIMER:
	case PCI_BRIDGE_CONTROL:
		return node->below ? 0xff : 0;
	default:
		return 0;
	}
}

/* The bus below a bridge answers to another number now. */
static void renumber(struct vpci_node *node, u8 old, u8 now)
{
	if (behind[old] == node->below)
		behind[old] = NULL;
	/* Bus 0 is the root. */
	if (now)
		behind[now] = node->below;
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	struct vpci_node *node;
	unsigned long flags;
	int i;

	raw_spin_lock_irqsave(&lock, flags);
	node = find(bus, devfn);
	for (i = 0; node && i < size && where + i < VPCI_HEADER; i++) {
		u8 mask = writable(node, where + i);
		u8 *byte = &node->config[where + i];
		u8 old = *byte;

		*byte = (old & ~mask) | ((value >> (8 * i)) & mask);
		if (node->below && where + i == PCI_SECONDARY_BUS && *byte != old)
			renumber(node, old, *byte);
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	return node ? PCIBIOS_SUCCESSFUL : PCIBIOS_DEVICE_NOT_FOUND;
}

static struct pci_ops config_ops = {
	.read = config_read,
	.write = config_write,
};

/* Keeps the drivers that a real ID would call off a device that is meant for another. */
static int choose_driver(struct pci_dev *pdev, void *failed)
{
	struct vpci_node *node = find(pdev->bus, pdev->devfn);
	int *ret = failed;

	if (node && node->kind->driver[0])
		*ret = bootrig_set_driver(pdev, node->kind->driver);
	return *ret;
}

static void remove_domain(void)
{
	pci_lock_rescan_remove();
	pci_stop_root_bus(host->bus);
	pci_remove_root_bus(host->bus);
	pci_unlock_rescan_remove();
	pci_free_host_bridge(host);
}

static int __init vpci_init(void)
{
	int ret;

	host = pci_alloc_host_bridge(0);
	if (!host)
		return -ENOMEM;
	host->sysdata = &sysdata;
	host->ops = &config_ops;
	pci_add_resource(&host->windows, &bus_numbers);

	pci_lock_rescan_remove();
	ret = pci_scan_root_bus_bridge(host);
	if (ret) {
		pci_unlock_rescan_remove();
		pr_err("adding PCI domain %d failed with %d%s\n", VPCI_DOMAIN, ret,
		       ret == -EEXIST ? ": the machine has one of this number" : "");
		pci_free_host_bridge(host);
		return ret;
	}
	/* Nothing binds before the devices are added below. */
	pci_walk_bus(host->bus, choose_driver, &ret);
	if (!ret)
		pci_bus_add_devices(host->bus);
	pci_unlock_rescan_remove();
	if (ret) {
		pr_err("choosing drivers failed with %d\n", ret);
		remove_domain();
	}
	return ret;
}

static void __exit vpci_exit(void)
{
	remove_domain();
}

module_init(vpci_init);
module_exit(vpci_exit);
MODULE_DESCRIPTION("bootrig: a PCI domain in the guest, for more devices than a machine has");
MODULE_LICENSE("GPL");
