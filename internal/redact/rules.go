package redact

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// rule takes out one group of what a pattern matches.
type rule struct {
	kind  Kind
	find  *regexp.Regexp
	group int
	// hint, if set, stands in every text that can match; of low one does, in the text's lower case. They save the search.
	hint string
	low  []string
	// ok, if set, decides about a match at text[from:to].
	ok func(text string, from, to int) bool
	// with, if set, stands in the place of the match instead of a mark.
	with string
}

func (u *rule) may(text, low string) bool {
	if u.hint != "" && !strings.Contains(text, u.hint) {
		return false
	}
	return len(u.low) == 0 || anyIn(low, u.low)
}

// anyIn says whether one of some words stands in a text.
func anyIn(text string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

func (u *rule) apply(text string, r *Redactor) string {
	var b strings.Builder
	at := 0
	taken := marks(text)
	for _, m := range u.find.FindAllStringSubmatchIndex(text, -1) {
		from, to := m[2*u.group], m[2*u.group+1]
		to = beforeMark(taken, from, to)
		if from < at || from >= to || r.keeps(text[from:to]) || u.ok != nil && !u.ok(text, from, to) {
			continue
		}
		if q := text[from]; to-from > 2 && (q == '"' || q == '\'') && text[to-1] == q {
			from, to = from+1, to-1
		}
		b.WriteString(text[at:from])
		if u.with != "" {
			b.WriteString(u.with)
		} else {
			b.WriteString(r.Mark(u.kind, text[from:to]))
		}
		at = to
	}
	if at == 0 {
		return text
	}
	b.WriteString(text[at:])
	return b.String()
}

// marks gives the places of the marks in a text.
func marks(text string) [][]int {
	if !Marked(text) {
		return nil
	}
	return marked.FindAllStringIndex(text, -1)
}

// beforeMark gives the end of what of a match stands before the first mark in it.
func beforeMark(taken [][]int, from, to int) int {
	for _, m := range taken {
		if from < m[1] && to > m[0] {
			return m[0]
		}
	}
	return to
}

var (
	keyBegin = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	keyEnd   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY-----`)
)

// shapes are secrets that can be told by themselves.
var shapes = []rule{
	{kind: PrivateKey, hint: "PRIVATE KEY-----", find: regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`)},
	{kind: PrivateKey, find: regexp.MustCompile(`\bAGE-SECRET-KEY-1[A-Z0-9]{20,}`), hint: "AGE-SECRET-KEY-"},
	{kind: Credentials, group: 1, hint: "://", find: regexp.MustCompile(`\b[A-Za-z][A-Za-z0-9+.-]*://([^\s/@"'<>?#]+)@`)},
	{kind: Token, group: 1, find: regexp.MustCompile(`hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{10,})`), hint: "hooks.slack"},
	{kind: APIKey, find: regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{16,}`), hint: "sk-", ok: hasDigit},
	{kind: APIKey, find: regexp.MustCompile(`\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}`), hint: "k_"},
	{kind: APIKey, low: []string{"csk", "xai", "pplx", "nvapi", "tskey", "key", "atatt3"}, find: regexp.MustCompile(`\b(?:csk|xai|pplx|nvapi|tskey|key|ATATT3)-?[A-Za-z0-9_-]{24,}`), ok: hasDigit},
	{kind: APIKey, find: regexp.MustCompile(`\b(?:gsk|r8|fw|tgp_v1|dop_v1|lin_api|whsec|secret)_[A-Za-z0-9]{20,}`), hint: "_", ok: hasDigit},
	{kind: APIKey, find: regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{30,}`), hint: "AIza"},
	{kind: APIKey, low: []string{"akia", "asia", "aroa", "aida"}, find: regexp.MustCompile(`\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b`)},
	{kind: APIKey, find: regexp.MustCompile(`\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`), hint: "SG."},
	{kind: Token, find: regexp.MustCompile(`\bhf_[A-Za-z0-9]{20,}`), hint: "hf_"},
	{kind: Token, find: regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{20,}`), hint: "gh"},
	{kind: Token, find: regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9_]{20,}`), hint: "github_pat_"},
	{kind: Token, find: regexp.MustCompile(`\bgl(?:pat|dt|rt|cbt)-[A-Za-z0-9_-]{16,}`), hint: "gl"},
	{kind: Token, find: regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`), hint: "xox"},
	{kind: Token, find: regexp.MustCompile(`\bya29\.[A-Za-z0-9_-]{20,}`), hint: "ya29."},
	{kind: Token, find: regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`), hint: "eyJ"},
	{kind: Token, low: []string{"npm_", "pypi-", "dckr_", "hvs."}, find: regexp.MustCompile(`\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|dckr_pat_[A-Za-z0-9_-]{16,}|hvs\.[A-Za-z0-9_-]{20,})`)},
	{kind: Token, find: regexp.MustCompile(`\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b`), hint: ":AA"},
	{kind: Token, find: regexp.MustCompile(`\b[MNO][A-Za-z0-9_-]{23}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}`)},
	{kind: Email, hint: "@", find: regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b`), ok: noVersion},
}

func hasDigit(text string, from, to int) bool {
	return strings.ContainsAny(text[from:to], "0123456789")
}

// random says whether a value looks like a key: long, letters and digits in it, no word of a language.
func random(text string, from, to int) bool {
	v := text[from:to]
	return len(v) >= 16 && hasDigit(text, from, to) && strings.ContainsAny(strings.ToLower(v), "abcdefghijklmnopqrstuvwxyz") &&
		!strings.ContainsAny(v, "<>|/~")
}

// places are where something is: addresses, hosts, folders.
var places = []rule{
	{kind: MAC, low: []string{":", "-"}, find: regexp.MustCompile(`\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b`), ok: alone},
	{kind: Address, find: regexp.MustCompile(`[0-9]{1,3}(?:\.[0-9]{1,3}){3}`), ok: foreignIPv4},
	{kind: Address, find: regexp.MustCompile(`[0-9A-Fa-f]{4}:[0-9A-Fa-f:]*(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3})?`), hint: ":", ok: foreignIPv6},
	{kind: User, group: 1, hint: "@", find: regexp.MustCompile(`(?:^|[\s"'=(])([a-z_][a-z0-9_.-]*)@[A-Za-z][A-Za-z0-9.-]*`), ok: noVersion},
	{kind: Host, group: 1, hint: "@", find: regexp.MustCompile(`(?:^|[\s"'=(»])@([A-Za-z][A-Za-z0-9.-]*)(?:[:\s]|$)`), ok: afterMark},
	{kind: Host, group: 1, hint: "://", find: regexp.MustCompile(`\b(?:https?|wss?|grpc|tcp|ssh|nats|redis|rediss|postgres(?:ql)?|mysql|amqp)://([A-Za-z0-9._-]+)`), ok: ownHost},
	{kind: Host, low: []string{".lan", ".intra", ".corp", ".localdomain", ".arpa", ".ts.net"}, find: regexp.MustCompile(`(?i)\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:lan|intranet|corp|localdomain|home\.arpa|ts\.net)\b`)},
	{kind: Host, low: []string{".local", ".internal"}, find: regexp.MustCompile(`(?i)\b[a-z0-9.]*(?:[a-z][0-9]|[a-z0-9]-[a-z0-9])[a-z0-9.-]*\.(?:local|internal)\b`)},
	{low: []string{"/home/", "/users/"}, find: regexp.MustCompile(`(?:/var/home|/home|/Users|/export/home)/[^/\s"':;,)\]}]+`), with: "~", ok: beginsPath},
	{find: regexp.MustCompile(`(?i)\b[a-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)[^\\/\s"':;,)\]}]+`), with: "~", hint: "sers"},
}

// alone says whether a match is not a part of something longer.
func alone(text string, from, to int) bool {
	longer := len(text) > to+1 && text[to] == ':' && isWord(text[to+1])
	return !wordBefore(text, from) && !wordAfter(text, to) && !longer
}

// beginsPath says whether an absolute path begins here, and not a folder of that name within another path.
func beginsPath(text string, from, _ int) bool {
	return !wordBefore(text, from) && (from == 0 || !strings.ContainsRune("~./-", rune(text[from-1])) || strings.HasSuffix(text[:from], "//"))
}

// versionBefore is what stands before a version that looks like an address.
var versionBefore = regexp.MustCompile(`(?i)(?:[a-z0-9_\]][~<>=!]=|(?:\bv|version|release|driver|build|revision)["']?[\s:=]*["']?)$`)

// llamaTime is what follows the time at the beginning of a line of llama.cpp's log, minutes.seconds.ms.µs.
var llamaTime = regexp.MustCompile(`^ [DIWE] `)

// foreignIPv4 says whether an address of four numbers is one that leads to a machine: not loopback, no mask, no version.
func foreignIPv4(text string, from, to int) bool {
	ip, err := netip.ParseAddr(text[from:to])
	if err != nil || ip.IsLoopback() || ip.As4()[0] == 0 || ip.As4()[0] == 255 {
		return false
	}
	after := text[to:]
	if wordBefore(text, from) || wordAfter(text, to) || len(after) > 1 && after[0] == '.' && isWord(after[1]) {
		return false
	}
	if from > 0 && strings.ContainsRune(".-_", rune(text[from-1])) {
		return false
	}
	atStart := from == 0 || text[from-1] == '\n'
	return !versionBefore.MatchString(text[max(0, from-16):from]) && !(atStart && llamaTime.MatchString(after))
}

// foreignIPv6 says whether a text is an address of the kinds that lead to a machine.
func foreignIPv6(text string, from, to int) bool {
	if wordBefore(text, from) || wordAfter(text, to) {
		return false
	}
	ip, err := netip.ParseAddr(text[from:to])
	if err != nil {
		ip, err = netip.ParseAddr(strings.TrimSuffix(text[from:to], ":"))
	}
	return err == nil && (ip.IsGlobalUnicast() || ip.IsLinkLocalUnicast() || ip.IsMulticast())
}

// versions follow an @ in the names of packages and images.
var versions = regexp.MustCompile(`@(?:v?[0-9]|sha256|latest|main|master)`)

func noVersion(text string, from, to int) bool {
	end := min(len(text), to+12)
	return !versions.MatchString(text[from:end])
}

// afterMark says whether a user's name was taken out just before.
func afterMark(text string, from, _ int) bool {
	return from == 1 || strings.HasSuffix(text[:from-1], markEnd)
}

// ownHost says whether a URL's host is somebody's own machine: a name without a dot. Public names stay.
func ownHost(text string, from, to int) bool {
	name := strings.ToLower(strings.TrimSuffix(text[from:to], "."))
	if strings.HasPrefix(text[to:], "@") || slices.Contains(anybodys, name) {
		return false
	}
	return !strings.Contains(name, ".")
}

// anybodys are names that every machine has, and what documents write in the place of one.
var anybodys = []string{"localhost", "ip6-localhost", "host", "hostname", "server", "example", "host.docker.internal"}
