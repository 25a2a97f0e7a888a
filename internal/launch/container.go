package launch

import (
	"slices"
	"strconv"
	"strings"
)

// container is a command of docker or a program like it that runs an image.
type container struct {
	runtime string
	// after is the index in the command's words behind "run".
	after           int
	name, idFile    string
	image           string
	args            []string // of the image
	env             map[string]string
	ports           []portPair
	hostNetwork     bool
	interactiveWord []int // words that ask for a terminal or for the background
}

// portPair is a published port.
type portPair struct {
	host, inside int
	address      string
}

var runtimes = []string{"docker", "podman", "nerdctl"}

// flagsAlone are docker's options that take no value.
var flagsAlone = strings.Fields("-d --detach -i --interactive -t --tty -P --publish-all --rm --init --privileged --read-only --no-healthcheck " +
	"--oom-kill-disable --sig-proxy --disable-content-trust --help -q --quiet")

// containerOf reads a command that runs a container; nil for any other.
func containerOf(args []string) *container {
	at := 0
	for at < len(args) && slices.Contains([]string{"sudo", "env", "nohup"}, baseName(args[at])) {
		at++
	}
	if at >= len(args) || !slices.Contains(runtimes, baseName(args[at])) {
		return nil
	}
	run := at + 1 + slices.Index(args[at+1:], "run")
	if run == at {
		return nil
	}
	c := &container{runtime: args[at], after: run + 1, env: map[string]string{}}
	i := run + 1
	for i < len(args) && strings.HasPrefix(args[i], "-") {
		i = c.take(args, i)
	}
	if i < len(args) {
		c.image, c.args = args[i], args[i+1:]
	}
	return c
}

// take reads one option and gives the index of the next word.
func (c *container) take(args []string, i int) int {
	word := args[i]
	if slices.Contains([]string{"-d", "--detach", "-i", "--interactive", "-t", "--tty"}, word) || isCombined(word) {
		c.interactiveWord = append(c.interactiveWord, i)
		return i + 1
	}
	if slices.Contains(flagsAlone, word) {
		return i + 1
	}
	name, value, joined := strings.Cut(word, "=")
	next := i + 1
	switch {
	case joined:
	case len(word) > 2 && word[1] != '-' && strings.Contains("pvew", word[1:2]):
		name, value = word[:2], word[2:] // -p8000:8000
	case next < len(args):
		value = args[next]
		next++
	}
	c.option(name, value)
	return next
}

// isCombined recognizes -it and the like.
func isCombined(word string) bool {
	return len(word) > 2 && word[0] == '-' && word[1] != '-' && strings.Trim(word[1:], "dit") == ""
}

func (c *container) option(name, value string) {
	switch name {
	case "--name":
		c.name = value
	case "--cidfile":
		c.idFile = value
	case "-e", "--env":
		if n, v, ok := strings.Cut(value, "="); ok {
			c.env[n] = v
		}
	case "--network", "--net":
		c.hostNetwork = c.hostNetwork || value == "host"
	case "-p", "--publish":
		if p, ok := parsePorts(value); ok {
			c.ports = append(c.ports, p)
		}
	}
}

// parsePorts reads 8000:8000, 127.0.0.1:8000:8000 and the like.
func parsePorts(text string) (portPair, bool) {
	text, _, _ = strings.Cut(text, "/")
	parts := strings.Split(text, ":")
	inside, err := strconv.Atoi(parts[len(parts)-1])
	if err != nil || len(parts) < 2 {
		return portPair{}, false
	}
	host, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil {
		return portPair{}, false
	}
	return portPair{host: host, inside: inside, address: strings.Trim(strings.Join(parts[:len(parts)-2], ":"), "[]")}, true
}

// attached gives the words that run the container in the foreground without a terminal, with a file for its identity
// unless it has a name or such a file already.
func (c *container) attached(args []string, idFile string) []string {
	var words []string
	for i, word := range args {
		if i == c.after && c.name == "" && c.idFile == "" {
			words = append(words, "--cidfile", idFile)
		}
		if !slices.Contains(c.interactiveWord, i) {
			words = append(words, word)
		}
	}
	return words
}
