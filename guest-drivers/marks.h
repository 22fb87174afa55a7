/* SPDX-License-Identifier: GPL-2.0-only */
/* What marks offers to the other modules. All of it is safe in any context but NMI. */
#ifndef BOOTRIG_MARKS_H
#define BOOTRIG_MARKS_H

#include <linux/types.h>

enum marks_op {
	MARKS_PROBE,
	MARKS_SHUTDOWN,
	MARKS_REMOVE,
};

enum marks_point {
	MARKS_ATTACH_BEGIN,
	MARKS_ATTACH_END,
	MARKS_SHUTDOWN_BEGIN,
	MARKS_SHUTDOWN_END,
	MARKS_DUMP_END,
};

struct marks_record;

struct marks_record *marks_begin(u32 dev, enum marks_op op);
void marks_locked(struct marks_record *rec);
void marks_unlocking(struct marks_record *rec);
void marks_end(struct marks_record *rec, int ret);
void marks_point(enum marks_point point);
void marks_name(u32 dev, u32 number);
void marks_busy(void);
void marks_idle(void);

#endif
