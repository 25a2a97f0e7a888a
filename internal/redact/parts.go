package redact

// Part is a piece of a redacted text: words, or the mark of what was taken out, whose Kind says what that was.
type Part struct {
	Text string
	Kind Kind
}

// Parts divides a text at its marks, in order; a text without any is one part.
func Parts(text string) []Part {
	var parts []Part
	at := 0
	for _, m := range marked.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > at {
			parts = append(parts, Part{Text: text[at:m[0]]})
		}
		parts = append(parts, Part{Text: text[m[0]:m[1]], Kind: Kind(text[m[2]:m[3]])})
		at = m[1]
	}
	if at < len(text) {
		parts = append(parts, Part{Text: text[at:]})
	}
	return parts
}
