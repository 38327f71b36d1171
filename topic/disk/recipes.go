package disk

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"headroom/change"
	"headroom/fact"
	"headroom/fail"
	"headroom/probe/block"
	"headroom/probe/proc"
)

var queueRecipe = &change.Recipe{
	ID: "disk.queue",
	Doc: "Sets how the kernel treats one disk, now (/sys/block/DEVICE/queue) and at each boot: by one udev rule per figure in /etc/udev/rules.d " +
		"(60-headroom-DEVICE-…), or by systemd-tmpfiles where there is no udev. Revert writes the old values back and removes the files. " +
		"Setting the scheduler makes the kernel set nr_requests to its default for that scheduler.",
	Object: "DEVICE",
	Args: []change.Arg{
		{Name: "rotational", Doc: "1: a spinning disk, 0: not", Eg: "0"},
		{Name: "scheduler", Doc: "one of those that the device offers", Eg: "none"},
		{Name: "read_ahead_kb", Doc: "how far ahead of a sequential reader the kernel reads, kB", Eg: "4096"},
		{Name: "nr_requests", Doc: "requests that may wait in the queue", Eg: "256"},
	},
	Needs: []fact.Any{block.Devices, proc.Boots},
	Plan:  planQueue,
}

// attributes are in the order in which they are set: the scheduler first,
// because setting it resets nr_requests. The label keeps that order at boot,
// where files are read by name.
var attributes = []struct {
	name, label string
	now         func(block.Queue) string // why it cannot be read, or ""
	check       func(block.Queue, string) string
}{
	{"scheduler", "1-scheduler", func(q block.Queue) string { return q.Scheduler.Because }, checkScheduler},
	{"nr_requests", "2-nr_requests", func(q block.Queue) string { return q.Requests.Because }, within(4, 65536)},
	{"rotational", "3-rotational", func(q block.Queue) string { return q.Rotational.Because }, within(0, 1)},
	{"read_ahead_kb", "4-read_ahead_kb", func(q block.Queue) string { return q.ReadAhead.Because }, wholePages},
}

func checkScheduler(q block.Queue, value string) string {
	if slices.Contains(q.Choices, value) {
		return ""
	}
	return "the device offers " + strings.Join(q.Choices, ", ")
}

// within checks a whole number in its shortest form, as the kernel prints it.
func within(low, high int64) func(block.Queue, string) string {
	return func(_ block.Queue, value string) string {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < low || n > high || strconv.FormatInt(n, 10) != value {
			return fmt.Sprintf("it takes a whole number from %d to %d", low, high)
		}
		return ""
	}
}

// wholePages checks a read-ahead: the kernel keeps whole pages of 4 kB.
func wholePages(q block.Queue, value string) string {
	if why := within(0, 1<<20)(q, value); why != "" {
		return why
	}
	if n, err := strconv.ParseInt(value, 10, 64); err != nil || n%4 != 0 {
		return "the kernel keeps whole pages, so it takes a multiple of 4"
	}
	return ""
}

func usage(format string, args ...any) error {
	return fail.With(fmt.Errorf(format, args...), fail.Usage)
}

// plainName is what the kernel's device names look like; anything else does
// not go into a rule.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_!.:-]+$`)

func planQueue(s *fact.Set, spec change.Spec) (change.Change, error) {
	devices, boot := fact.Get(s, block.Devices), fact.Get(s, proc.Boots)
	d, err := findDevice(devices, spec)
	if err != nil {
		return change.Change{}, err
	}
	if err := checkArgs(d, spec); err != nil {
		return change.Change{}, err
	}
	c := change.Change{Spec: spec, Subject: "disk " + d.Name, Risk: change.RiskLow}
	var said []string
	for _, a := range attributes {
		value, given := spec.Args[a.name]
		if !given {
			continue
		}
		c.Steps = append(c.Steps, change.Value{Path: sysfs(d, a.name), Value: value})
		c.Steps = append(c.Steps, lasting(d, a.name, a.label, value, boot)...)
		said = append(said, a.name+" = "+value)
	}
	c.Why = "Set " + strings.Join(said, ", ") + " on " + d.Name + "."
	c.RiskWhy = "It takes effect at once for all programs that use the disk; reads may get slower if it does not fit."
	if _, ok := spec.Args["scheduler"]; ok && d.Queue.Requests.OK() {
		c.RiskWhy += fmt.Sprintf(" The kernel sets nr_requests (now %d) to its default for the scheduler, at apply and at revert.", d.Queue.Requests.Value)
	}
	switch {
	case boot.Udev:
		c.RiskWhy += " At boot the rule finds the disk by its name " + d.Name + "."
	case boot.Tmpfiles:
		c.RiskWhy += " There is no udev here, so systemd-tmpfiles sets it at boot: a disk that appears later is missed."
	default:
		c.RiskWhy += " There is neither udev nor systemd-tmpfiles here, so it lasts until the next boot only."
	}
	return c, nil
}

func findDevice(devices []block.Device, spec change.Spec) (block.Device, error) {
	if spec.Object == "" {
		return block.Device{}, fail.With(fail.Hint(errors.New("no device named"), "e.g. disk.queue %s read_ahead_kb=4096", firstDisk(devices)), fail.Usage)
	}
	d, err := block.Find(devices, spec.Object)
	switch {
	case err != nil:
		return d, fail.With(err, fail.Usage)
	case !d.Settable():
		return d, usage("%s is a partition; its queue is that of %s", d.Name, d.Disk)
	case !plainName.MatchString(d.Name):
		return d, usage("%q is no name that can stand in a rule", d.Name)
	}
	return d, nil
}

func firstDisk(devices []block.Device) string {
	for _, d := range devices {
		if d.Kind == "disk" {
			return d.Name
		}
	}
	return "sda"
}

func checkArgs(d block.Device, spec change.Spec) error {
	var names []string
	for _, a := range attributes {
		names = append(names, a.name)
	}
	if len(spec.Args) == 0 {
		return usage("nothing to set (it takes %s)", strings.Join(names, ", "))
	}
	for name := range spec.Args {
		if !slices.Contains(names, name) {
			return usage("unknown name %q (known: %s)", name, strings.Join(names, ", "))
		}
	}
	for _, a := range attributes {
		value, given := spec.Args[a.name]
		if !given {
			continue
		}
		if why := a.now(d.Queue); why != "" {
			return fmt.Errorf("%s of %s could not be read: %s", a.name, d.Name, why)
		}
		if why := a.check(d.Queue, value); why != "" {
			return usage("%s=%s: %s", a.name, value, why)
		}
	}
	_, s := spec.Args["scheduler"]
	_, n := spec.Args["nr_requests"]
	if s && n {
		// The old nr_requests may be more than the new scheduler takes, so the
		// two could not be taken back together.
		return usage("setting scheduler resets nr_requests; make it two changes, the scheduler first")
	}
	return nil
}

func sysfs(d block.Device, attribute string) string {
	return "/sys/block/" + d.Name + "/queue/" + attribute
}

const header = "# Set by headroom; `headroom journal` lists it, `headroom revert` takes it back.\n"

// lasting is the step that sets an attribute at each boot.
func lasting(d block.Device, attribute, label, value string, boot proc.Boot) change.Steps {
	switch {
	case boot.Udev:
		return change.Steps{change.File{Path: proc.RulesFile(d.Name, label), Mode: 0o644,
			Content: header + fmt.Sprintf("ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"%s\", ATTR{queue/%s}=\"%s\"\n", d.Name, attribute, value)}}
	case boot.Tmpfiles:
		return change.Steps{change.File{Path: proc.TmpfilesFile(d.Name + "-" + label), Mode: 0o644,
			Content: header + fmt.Sprintf("w %s - - - - %s\n", sysfs(d, attribute), value)}}
	}
	return nil
}
