/* Makes text of peers, files and models printable UTF-8 for terminals, logs, JSON and HTML. Used
 * only at those edges; elsewhere text stays unchanged.
 *
 * A character is printable unless it is a control character (C0, DEL, C1), changes the direction of
 * text, has no width, separates lines or paragraphs, or is a tag. Such a character of one byte
 * becomes \xNN, another one \u{...}; each byte that is no UTF-8 becomes \xNN. Printable text stays
 * as it is. */
#ifndef KILN_BASE_TEXT_H
#define KILN_BASE_TEXT_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_TEXT_PIECE_MAX 12u /* bytes of the longest form of one character: \u{10ffff} */

typedef enum kiln_text_form {
    KILN_TEXT_LINE,  /* one line: line ends are escaped as well */
    KILN_TEXT_PROSE, /* lines after the first are kept where two spaces begin them, as in a list of
                        findings; other line ends are escaped, so that no text forges a line */
    KILN_TEXT_PAGE,  /* line ends and tabs are kept: text that Kiln itself has laid out */
} kiln_text_form;

/* Cuts the first character off the non-empty `rest` and writes its printable form, without a NUL;
 * returns the form's bytes. */
size_t kiln_text_step(kiln_str *rest, kiln_text_form form, char out_piece[KILN_TEXT_PIECE_MAX]);

bool kiln_text_is_printable(kiln_str text, kiln_text_form form);
/* The rule for names, reasons and other short texts that people give and lists show: one printable
 * line. Programs check it where such a text enters: command lines, HTTP, the tracker.
 * INVALID_ARGUMENT: it is not; the error calls the text `what` and shows its printable form. */
KILN_MUST_USE kiln_status kiln_text_check_line(kiln_str text, const char *what);
/* Bytes of the first character of `text`: 1 to 4, or 0 if it is not UTF-8. `*out_character` is its
 * code point. */
size_t kiln_text_character(kiln_str text, uint32_t *out_character);

/* The printable form: `text` itself if it is printable, else a copy in `arena`. A form above
 * `size_max` bytes (at least 16) is cut after a whole character and ends in "...". */
kiln_str kiln_text_printable(kiln_str text, kiln_text_form form, size_t size_max,
                             kiln_arena *arena);
/* The same, appended to a buffer, or written to memory with a NUL in at most `size` bytes (at least
 * 17); returns the bytes without the NUL. */
void kiln_text_append(kiln_strbuf *out, kiln_str text, kiln_text_form form, size_t size_max);
size_t kiln_text_write(kiln_str text, kiln_text_form form, char *out, size_t size);
/* The printable form (prose) as the inside of a JSON string, without its quotes. */
void kiln_text_append_json(kiln_strbuf *out, kiln_str text);

#endif
