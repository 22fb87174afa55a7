/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the parts of vpci: table (what there is), main (the bus). */
#ifndef BOOTRIG_VPCI_H
#define BOOTRIG_VPCI_H

#include <linux/types.h>

/* The domain of these devices, and how docs/protocol.md writes it before a path. */
#define VPCI_DOMAIN		1
#define VPCI_DOMAIN_PREFIX	"1:"

#define VPCI_FUNCTIONS		256	/* of a bus: 32 slots of 8 */
#define VPCI_BUSES		256	/* of a domain */
#define VPCI_HEADER		64	/* bytes of config space that are more than zeros */

struct vpci_node;

/**
 * struct vpci_bus - what is on one bus
 * @at: by slot and function
 */
struct vpci_bus {
	struct vpci_node *at[VPCI_FUNCTIONS];
};

/**
 * struct vpci_kind - what equal functions have in common
 * @vendor: vendor ID
 * @device: device ID
 * @class: class code with programming interface: 24 bits
 * @bridge: has a bus below it
 * @driver: the only driver that may bind, or empty: whichever matches
 */
struct vpci_kind {
	u16 vendor;
	u16 device;
	u32 class;
	bool bridge;
	char driver[32];
};

/**
 * struct vpci_node - one function
 * @kind: what it is
 * @below: the bus below a bridge
 * @next: the one made before it
 * @config: its config space as read, little endian
 */
struct vpci_node {
	const struct vpci_kind *kind;
	struct vpci_bus *below;
	struct vpci_node *next;
	u8 config[VPCI_HEADER];
};

extern struct vpci_bus vpci_root;

#endif
