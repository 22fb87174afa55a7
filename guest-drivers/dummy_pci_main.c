// SPDX-License-Identifier: GPL-2.0-only
/*
 * A driver for QEMU's PCI devices that takes as long as drivers of real hardware.
 *
 * It binds the devices that its table names (dummy_pci_table.c), spends in each callback
 * the time that the device's profile says (dummy_pci_steps.c), and has each callback
 * recorded (marks.c). Devices may depend on one another, and be listed in an order of their
 * own (dummy_pci_links.c), need firmware (dummy_pci_firmware.c), get names
 * (dummy_pci_names.c), and be probed by this task or another (dummy_pci_strategy.c).
 */

#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sched.h>

#include "dummy_pci.h"

/* Waits for ever, as for a device that does not answer and a driver without a limit. */
static void never_return(void)
{
	for (;;) {
		set_current_state(TASK_IDLE);
		schedule();
	}
}

static int come_to_an_end(const struct dummy_device *device)
{
	switch (device->fault) {
	case DUMMY_ERROR:
		return -EIO;
	case DUMMY_DEFER:
		return -EPROBE_DEFER;
	case DUMMY_NEVER_RETURNS:
		never_return();
		return -EINTR;
	case DUMMY_SOUND:
		break;
	}
	return 0;
}

static int set_up(struct dummy_device *device, struct pci_dev *pdev, struct marks_record *rec)
{
	int ret;

	ret = pci_enable_device(pdev);
	if (ret)
		return ret;
	pci_set_drvdata(pdev, device);
	ret = dummy_run(device, pdev, MARKS_PROBE, rec);
	if (!ret)
		ret = come_to_an_end(device);
	if (!ret)
		ret = dummy_name(device, &pdev->dev);
	if (ret)
		pci_disable_device(pdev);
	return ret;
}

static int dummy_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct dummy_device *device = dummy_find(pdev);
	struct marks_record *rec;
	int ret;

	if (!device || dummy_stays_unbound(device) || dummy_is_held())
		return -ENODEV;
	rec = marks_begin(device->number, MARKS_PROBE);
	ret = set_up(device, pdev, rec);
	marks_end(rec, ret);
	return ret;
}

static void dummy_shutdown(struct pci_dev *pdev)
{
	struct dummy_device *device = pci_get_drvdata(pdev);
	struct marks_record *rec = marks_begin(device->number, MARKS_SHUTDOWN);

	dummy_run(device, pdev, MARKS_SHUTDOWN, rec);
	marks_end(rec, 0);
}

static void dummy_remove(struct pci_dev *pdev)
{
	struct dummy_device *device = pci_get_drvdata(pdev);
	struct marks_record *rec = marks_begin(device->number, MARKS_REMOVE);

	dummy_run(device, pdev, MARKS_REMOVE, rec);
	dummy_unname(device);
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
	ret = dummy_names_init();
	if (ret)
		return ret;
	ret = dummy_links_init();
	if (ret)
		goto names;
	ret = dummy_attach(&dummy_driver);
	if (ret)
		goto links;
	return 0;

links:
	dummy_links_exit();
names:
	dummy_names_exit();
	return ret;
}

static void __exit dummy_exit(void)
{
	dummy_detach(&dummy_driver);
	dummy_links_exit();
	dummy_names_exit();
}

module_init(dummy_init);
module_exit(dummy_exit);
MODULE_DESCRIPTION("bootrig: PCI devices that take as long as real ones");
MODULE_LICENSE("GPL");
