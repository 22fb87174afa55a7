/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the parts of dummy_pci: table (who), steps (how long), links (in what order),
 * main (the driver).
 */
#ifndef BOOTRIG_DUMMY_PCI_H
#define BOOTRIG_DUMMY_PCI_H

#include <linux/types.h>

#include "marks.h"

#define DUMMY_OPS	(MARKS_REMOVE + 1)
#define DUMMY_STEPS	16	/* most steps of one callback */
#define DUMMY_LOCKS	16
#define DUMMY_NO_LOCK	DUMMY_LOCKS

struct device;
struct pci_dev;
struct pci_driver;

/**
 * struct dummy_step - one way a device makes its driver wait
 * @kind: 's' msleep, 'w' completion by timer, 'p' poll, 'b' spin, 'c' compute,
 *	't' start a thread; 0 ends the list
 * @ns: how long
 * @every_ns: pause between two looks of a poll
 */
struct dummy_step {
	char kind;
	u64 ns;
	u64 every_ns;
};

/**
 * struct dummy_firmware - what is written into a device's flash memory at probe
 * @file: as request_firmware() is told
 * @size: bytes of it
 * @page: bytes that are written at once
 * @sector: bytes that are erased at once
 * @erase: what a sector takes
 * @program: what a page takes
 */
struct dummy_firmware {
	char file[96];
	u32 size;
	u32 page;
	u32 sector;
	struct dummy_step erase;
	struct dummy_step program;
};

/**
 * struct dummy_profile - the delays of a kind of device
 * @firmware: loaded first at probe, or NULL
 * @steps: of each callback, by enum marks_op
 * @lock: number of the lock held during each callback, or DUMMY_NO_LOCK
 */
struct dummy_profile {
	struct dummy_firmware *firmware;
	struct dummy_step steps[DUMMY_OPS][DUMMY_STEPS + 1];
	unsigned int lock;
};

/* What goes wrong in a device's probe. */
enum dummy_fault {
	DUMMY_SOUND,
	DUMMY_ERROR,		/* it fails */
	DUMMY_DEFER,		/* it waits for something that never comes */
	DUMMY_NEVER_RETURNS,
};

/**
 * struct dummy_device - one line of the device table
 * @number: the device's number in the scenario
 * @profile: its delays
 * @fault: what is wrong with it
 * @prefix: what its name begins with, or NULL: it gets none
 * @named: the device with that name, while it is bound
 * @name_number: what its name ends in
 */
struct dummy_device {
	u32 number;
	const struct dummy_profile *profile;
	enum dummy_fault fault;
	struct dummy_prefix *prefix;
	struct device *named;
	int name_number;
};

struct dummy_device *dummy_find(struct pci_dev *pdev);
struct dummy_device *dummy_numbered(u32 number);
bool dummy_computes(void);

int dummy_links_init(void);
void dummy_links_exit(void);
bool dummy_stays_unbound(const struct dummy_device *device);

int dummy_names_init(void);
void dummy_names_exit(void);
int dummy_name(struct dummy_device *device, struct device *parent);
void dummy_unname(struct dummy_device *device);

void dummy_steps_init(bool computes);
int dummy_step(const struct dummy_step *step);
int dummy_run(const struct dummy_device *device, struct pci_dev *pdev, enum marks_op op,
	      struct marks_record *rec);

int dummy_load_firmware(const struct dummy_firmware *firmware, struct device *dev);

int dummy_attach(struct pci_driver *driver);
void dummy_detach(struct pci_driver *driver);
bool dummy_is_held(void);

#endif
