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

struct pci_dev;

/**
 * struct dummy_step - one way a device makes its driver wait
 * @kind: 's' msleep, 'w' completion by timer, 'p' poll, 'b' spin, 'c' compute;
 *	0 ends the list
 * @ns: how long
 * @every_ns: pause between two looks of a poll
 */
struct dummy_step {
	char kind;
	u64 ns;
	u64 every_ns;
};

/**
 * struct dummy_profile - the delays of a kind of device
 * @steps: of each callback, by enum marks_op
 * @lock: number of the lock held during each callback, or DUMMY_NO_LOCK
 */
struct dummy_profile {
	struct dummy_step steps[DUMMY_OPS][DUMMY_STEPS + 1];
	unsigned int lock;
};

/**
 * struct dummy_device - one line of the device table
 * @number: the device's number in the scenario
 * @profile: its delays
 */
struct dummy_device {
	u32 number;
	const struct dummy_profile *profile;
};

const struct dummy_device *dummy_find(struct pci_dev *pdev);
bool dummy_computes(void);

int dummy_links_init(void);
void dummy_links_exit(void);
bool dummy_stays_unbound(const struct dummy_device *device);

void dummy_steps_init(bool computes);
void dummy_run(const struct dummy_profile *profile, enum marks_op op, struct marks_record *rec);

#endif
