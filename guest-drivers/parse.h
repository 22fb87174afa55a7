/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Strict readers of module parameters (docs/protocol.md). Each takes what it is named
 * after from the front of a text and moves on past it, or returns false.
 */
#ifndef BOOTRIG_PARSE_H
#define BOOTRIG_PARSE_H

#include <linux/ctype.h>
#include <linux/pci.h>
#include <linux/string.h>
#include <linux/types.h>

static inline bool take_char(const char **at, char c)
{
	if (**at != c)
		return false;
	(*at)++;
	return true;
}

static inline bool take_word(const char **at, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(*at, word, len))
		return false;
	*at += len;
	return true;
}

/* Decimal digits only, at least one, no more than @max. */
static inline bool take_number(const char **at, u64 max, u64 *value)
{
	const char *start = *at;

	for (*value = 0; isdigit(**at); (*at)++) {
		*value = *value * 10 + (**at - '0');
		if (*value > max)
			return false;
	}
	return *at != start;
}

/* Exactly @digits hexadecimal digits, lower case, as lspci prints. */
static inline bool take_hex(const char **at, int digits, u32 *value)
{
	for (*value = 0; digits; digits--, (*at)++) {
		char c = **at;

		if (isdigit(c))
			*value = *value << 4 | (c - '0');
		else if (c >= 'a' && c <= 'f')
			*value = *value << 4 | (c - 'a' + 10);
		else
			return false;
	}
	return true;
}

/* "SS.F": two hexadecimal digits of the slot, one of the function. */
static inline bool take_devfn(const char **at, unsigned int *devfn)
{
	u32 slot, function;

	if (!take_hex(at, 2, &slot) || !take_char(at, '.') || !take_hex(at, 1, &function))
		return false;
	if (slot > 0x1f || function > 7)
		return false;
	*devfn = PCI_DEVFN(slot, function);
	return true;
}

#endif
