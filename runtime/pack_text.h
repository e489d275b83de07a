/* Damaged or hostile files end up in messages: what of their text is safe to show. */
#ifndef MXRT_PACK_TEXT_H
#define MXRT_PACK_TEXT_H

#include <stddef.h>
#include <string.h>

typedef struct mxrt_shown_text {
    char chars[100];
} mxrt_shown_text;

/* The beginning of `text`, which may be NULL, without characters that would disturb a terminal. */
static inline mxrt_shown_text mxrt_show_text(const char *text)
{
    mxrt_shown_text shown;
    size_t limit = sizeof(shown.chars) - 4, n = 0;
    for (; text && n < limit && text[n]; n++)
        shown.chars[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    memcpy(shown.chars + n, text && text[n] ? "..." : "", text && text[n] ? 4 : 1);
    return shown;
}

#endif
