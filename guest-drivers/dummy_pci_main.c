// SPDX-License-Identifier: GPL-2.0-only
/*
 * A driver for QEMU's PCI devices that takes as long as drivers of real hardware.
 *
 * It binds the devices that its table names (dummy_pci_table.c), spends in each callback
 * the time that the device's profile says (dummy_pci_steps.c), and has each callback
 * recorded (marks.c). Devices may depend on one another, and be listed in an order of their
 * own (dummy_pci_links.c).
 */

#include <linux/module.h>
#include <linux/pci.h>

#include "dummy_pci.h"

static int dummy_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	const struct dummy_device *device = dummy_find(pdev);
	struct marks_record *rec;
	int ret;

	if (!device || dummy_stays_unbound(device))
		return -ENODEV;
	rec = marks_begin(device->number, MARKS_PROBE);
	ret = pci_enable_device(pdev);
	if (!ret) {
		pci_set_drvdata(pdev, (void *)device);
		dummy_run(device->profile, MARKS_PROBE, rec);
	}
	marks_end(rec, ret);
	return ret;
}

static void dummy_shutdown(struct pci_dev *pdev)
{
	const struct dummy_device *device = pci_get_drvdata(pdev);
	struct marks_record *rec = marks_begin(device->number, MARKS_SHUTDOWN);

	dummy_run(device->profile, MARKS_SHUTDOWN, rec);
	marks_end(rec, 0);
}

static void dummy_remove(struct pci_dev *pdev)
{
	const struct dummy_device *device = pci_get_drvdata(pdev);
	struct marks_record *rec = marks_begin(device->number, MARKS_REMOVE);

	dummy_run(device->profile, MARKS_REMOVE, rec);
	pci_disable_device(pdev);
	marks_end(rec, 0);
}

static const struct pci_device_id dummy_ids[] = {
	{ PCI_DEVICE(0x1b36, 0x0001) },	/* pci-bridge */
	{ PCI_DEVICE(0x1b36, 0x000c) },	/* pcie-root-port */
	{ PCI_DEVICE(0x1b36, 0x000e) },	/* pcie-pci-bridge */
	{ PCI_DEVICE(0x1b36, 0x0011) },	/* pvpanic-pci, the cheapest device */
	{ }
};
MODULE_DEVICE_TABLE(pci, dummy_ids);

static struct pci_driver dummy_driver = {
	.name = "bootrig_dummy",
	.id_table = dummy_ids,
	.probe = dummy_probe,
	.remove = dummy_remove,
	.shutdown = dummy_shutdown,
};

static int __init dummy_init(void)
{
	int ret;

	dummy_steps_init(dummy_computes());
	ret = dummy_links_init();
	if (ret)
		return ret;
	marks_point(MARKS_ATTACH_BEGIN);
	ret = pci_register_driver(&dummy_driver);
	marks_point(MARKS_ATTACH_END);
	if (ret)
		dummy_links_exit();
	return ret;
}

static void __exit dummy_exit(void)
{
	pci_unregister_driver(&dummy_driver);
	dummy_links_exit();
}

module_init(dummy_init);
module_exit(dummy_exit);
MODULE_DESCRIPTION("bootrig: PCI devices that take as long as real ones");
MODULE_LICENSE("GPL");
