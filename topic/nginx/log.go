package nginx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/probe/nginx"
)

func counted(name, unit, help, source string, labels ...string) *metric.Def {
	return &metric.Def{Name: name, Unit: unit, Kind: metric.Counter, Labels: labels, Help: help, Source: "access log " + source}
}

var (
	logRequests = counted("nginx_log_requests_total", metric.Count, "Requests answered, by class of status.", "$status", "status")
	logSeconds  = counted("nginx_log_request_seconds_total", metric.Seconds, "Time from the first byte of the request to the last of the answer, summed.", "$request_time")
	logBytes    = counted("nginx_log_sent_bytes_total", metric.Bytes, "Bytes sent to clients.", "$bytes_sent or $body_bytes_sent")
	logOutside  = counted("nginx_log_outside_seconds_total", metric.Seconds, "Of the time of requests that went to an upstream server, the part that it did not take: slow clients, and waiting in nginx.", "$request_time - $upstream_response_time")
	logOdd      = counted("nginx_log_odd_lines_total", metric.Count, "Lines that do not have the form of the log's format.", "")
	logSkipped  = counted("nginx_log_skipped_bytes_total", metric.Bytes, "Bytes passed over, because lines were too long or too many.", "")

	upAttempts = counted("nginx_upstream_attempts_total", metric.Count, "Tries of requests at an upstream server, by class of its status; none: it sent none.", "$upstream_addr, $upstream_status", "upstream", "status")
	upSeconds  = counted("nginx_upstream_seconds_total", metric.Seconds, "Time that an upstream server took to answer, summed.", "$upstream_response_time", "upstream")
	upConnect  = counted("nginx_upstream_connect_seconds_total", metric.Seconds, "Time until an upstream server took the connection, summed: waiting in its queue.", "$upstream_connect_time", "upstream")
	upHeader   = counted("nginx_upstream_header_seconds_total", metric.Seconds, "Time until an upstream server sent the first byte, summed.", "$upstream_header_time", "upstream")
)

// Limits of a round.
const (
	logBudget    = 32 << 20 // bytes of all logs of a server
	maxLogs      = 16
	maxUpstreams = 64
)

// classes are the classes of status; the first is for answers without one.
var classes = [6]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

func class(status int) int {
	if c := status / 100; c <= 5 {
		return c
	}
	return 0
}

// sums is what was counted since the logs were read first.
type sums struct {
	counts
	hasConnect, hasHeader bool
	hasBytes              bool
}

// counts are the part of the sums that outlives the process.
type counts struct {
	Requests  [6]float64           `json:"requests"`
	Seconds   float64              `json:"seconds"`
	Bytes     float64              `json:"bytes"`
	Outside   float64              `json:"outside_seconds"`
	Odd       float64              `json:"odd"`
	Upstreams map[string]*upstream `json:"upstreams"`
}

type upstream struct {
	Attempts [6]float64 `json:"attempts"`
	Seconds  float64    `json:"seconds"`
	Connect  float64    `json:"connect_seconds"`
	Header   float64    `json:"header_seconds"`
}

// logState is what the collector of logs remembers.
type logState struct {
	config
	files []*logFile
	sums
	memory
}

// logFile is one log being followed.
type logFile struct {
	tail   nginx.Tail
	parser *nginx.Parser
	format *nginx.Format
}

var logCollector = &metric.Collector{
	Name: "nginx.log", Doc: "requests by status and by upstream server, from access logs that tell of them; counted from when Headroom first read them", Of: metric.Nginx,
	Deadline: 8 * time.Second,
	Defs:     []*metric.Def{logRequests, logSeconds, logBytes, logOutside, logOdd, logSkipped, upAttempts, upSeconds, upConnect, upHeader},
	Collect: func(ctx context.Context, r host.Reader, out *metric.Out) error {
		s := metric.Kept[logState](out)
		if err := s.fresh(r, out); err != nil {
			return err
		}
		s.resume(out)
		if len(s.Logs) == 0 {
			return fail.Hint(fmt.Errorf("none of nginx's %d access logs tells of upstream servers: %w", s.Others, fail.ErrAbsent),
				"add to its http block, and reload it: %s", nginx.Snippet)
		}
		s.follow()
		if err := s.read(ctx, r, out); err != nil {
			return err
		}
		s.keep(out)
		s.give(out)
		return nil
	},
}

// follow makes the files that are read those of the configuration.
func (s *logState) follow() {
	var files []*logFile
	for _, l := range s.Logs[:min(len(s.Logs), maxLogs)] {
		i := slices.IndexFunc(s.files, func(f *logFile) bool { return f.tail.Path == l.Path })
		if i < 0 {
			f := &logFile{tail: nginx.Tail{Path: l.Path}, parser: nginx.NewParser(l.Format), format: l.Format}
			if at, ok := s.places[l.Path]; ok { // once: it may leave the configuration and come back
				f.tail.Resume(at)
				delete(s.places, l.Path)
			}
			files = append(files, f)
			continue
		}
		if f := s.files[i]; !f.format.Same(l.Format) {
			f.parser, f.format = nginx.NewParser(l.Format), l.Format
		}
		files = append(files, s.files[i])
	}
	s.files = files
}

// read counts what was added to all logs. A log that cannot be read is a gap
// if others can.
func (s *logState) read(ctx context.Context, r host.Reader, out *metric.Out) error {
	budget := logBudget
	var req nginx.Request
	var errs []error
	for _, f := range s.files {
		s.hasBytes = s.hasBytes || f.format.Has("bytes_sent") || f.format.Has("body_bytes_sent")
		s.hasConnect = s.hasConnect || f.format.Has("upstream_connect_time")
		s.hasHeader = s.hasHeader || f.format.Has("upstream_header_time")
		var err error
		budget, err = f.tail.More(ctx, r, budget, func(line string) {
			if f.parser.Parse(line, &req) {
				s.count(&req)
			} else {
				s.Odd++
			}
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == len(s.files) {
		return fail.Hint(errors.Join(errs...), "let the account that Headroom runs as read the logs: usermod -aG adm headroom")
	}
	for _, err := range errs {
		out.Gap(err.Error(), "let the account that Headroom runs as read the log", logRequests, upAttempts)
	}
	return nil
}

func (s *sums) count(r *nginx.Request) {
	s.Requests[class(r.Status)]++
	s.Seconds += r.Seconds
	s.Bytes += r.Bytes
	inside := 0.0
	for _, a := range r.Attempts {
		u := s.upstream(a.Addr)
		u.Attempts[class(a.Status)]++
		u.Seconds += a.Answer
		u.Connect += a.Connect
		u.Header += a.Header
		inside += a.Answer
	}
	if len(r.Attempts) > 0 {
		s.Outside += max(r.Seconds-inside, 0)
	}
}

// upstream is the sums of one server; past a limit all others share one.
func (s *sums) upstream(addr string) *upstream {
	if u := s.Upstreams[addr]; u != nil {
		return u
	}
	if s.Upstreams == nil {
		s.Upstreams = map[string]*upstream{}
	}
	if len(s.Upstreams) >= maxUpstreams {
		addr = "others"
		if u := s.Upstreams[addr]; u != nil {
			return u
		}
	}
	u := &upstream{}
	s.Upstreams[strings.Clone(addr)] = u
	return u
}

func (s *logState) give(out *metric.Out) {
	for c, n := range s.Requests {
		if c > 0 {
			out.Add(logRequests, n, classes[c])
		}
	}
	out.Add(logSeconds, s.Seconds)
	out.Add(logOutside, s.Outside)
	out.Add(logOdd, s.Odd)
	skipped := 0.0
	for _, f := range s.files {
		skipped += f.tail.Skipped
	}
	out.Add(logSkipped, skipped)
	if s.hasBytes {
		out.Add(logBytes, s.Bytes)
	}
	for addr, u := range s.Upstreams {
		for c, n := range u.Attempts {
			if n > 0 {
				out.Add(upAttempts, n, addr, classes[c])
			}
		}
		out.Add(upSeconds, u.Seconds, addr)
		if s.hasConnect {
			out.Add(upConnect, u.Connect, addr)
		}
		if s.hasHeader {
			out.Add(upHeader, u.Header, addr)
		}
	}
	s.gaps(out)
}

// gaps names what the formats of the logs leave out.
func (s *logState) gaps(out *metric.Out) {
	for _, g := range []struct {
		has  bool
		name string
		def  *metric.Def
	}{{s.hasBytes, "$bytes_sent", logBytes}, {s.hasConnect, "$upstream_connect_time", upConnect}, {s.hasHeader, "$upstream_header_time", upHeader}} {
		if !g.has {
			out.Gap("the log's format has no "+g.name, "add "+g.name+" to log_format", g.def)
		}
	}
}
