package network

import (
	"context"
	"maps"
	"os"
	"strings"

	"headroom/host"
	"headroom/metric"
	"headroom/probe/proc"
)

func counted(name, help, file, key string) proc.Figure {
	return proc.Figure{Key: key, Def: &metric.Def{Name: name, Help: help, Unit: metric.Count, Kind: metric.Counter, Source: file + " " + key}}
}

const snmp, netstat, sockstat = "/proc/net/snmp", "/proc/net/netstat", "/proc/net/sockstat"

var (
	connections = &metric.Def{Name: "host_tcp_connections", Unit: metric.Count, Kind: metric.Gauge,
		Help: "TCP connections that are established, or half closed by the other side.", Source: snmp + " Tcp.CurrEstab"}
	snmpFigures = []proc.Figure{
		{Key: "Tcp.CurrEstab", Def: connections},
		counted("host_tcp_segments_received_total", "TCP segments received.", snmp, "Tcp.InSegs"),
		counted("host_tcp_segments_sent_total", "TCP segments sent, without those sent again.", snmp, "Tcp.OutSegs"),
		counted("host_tcp_segments_sent_again_total", "TCP segments sent again because no acknowledgement came.", snmp, "Tcp.RetransSegs"),
		counted("host_tcp_segments_bad_total", "TCP segments received with an error.", snmp, "Tcp.InErrs"),
		counted("host_tcp_opened_total", "TCP connections opened from here.", snmp, "Tcp.ActiveOpens"),
		counted("host_tcp_accepted_total", "TCP connections opened by others.", snmp, "Tcp.PassiveOpens"),
		counted("host_tcp_open_failures_total", "TCP connections that could not be opened.", snmp, "Tcp.AttemptFails"),
		counted("host_tcp_broken_total", "TCP connections that were reset after they were established.", snmp, "Tcp.EstabResets"),
		counted("host_tcp_resets_sent_total", "TCP resets sent.", snmp, "Tcp.OutRsts"),
		counted("host_udp_received_total", "UDP datagrams received.", snmp, "Udp.InDatagrams"),
		counted("host_udp_sent_total", "UDP datagrams sent.", snmp, "Udp.OutDatagrams"),
		counted("host_udp_buffer_drops_total", "UDP datagrams dropped because the receiver was too slow.", snmp, "Udp.RcvbufErrors"),
	}
	netstatFigures = []proc.Figure{
		counted("host_tcp_listen_overflows_total", "TCP connections refused because a program accepts too slowly: its queue was full.", netstat, "TcpExt.ListenOverflows"),
		counted("host_tcp_listen_drops_total", "TCP connections dropped before they were accepted, whatever the reason.", netstat, "TcpExt.ListenDrops"),
		counted("host_tcp_timeouts_total", "Times that a TCP connection waited in vain for an acknowledgement.", netstat, "TcpExt.TCPTimeouts"),
		counted("host_tcp_memory_aborts_total", "TCP connections given up for lack of memory.", netstat, "TcpExt.TCPAbortOnMemory"),
		counted("host_tcp_memory_pressures_total", "Times that TCP began to save memory.", netstat, "TcpExt.TCPMemoryPressures"),
		counted("host_tcp_syncookies_sent_total", "TCP connections answered with a cookie because the queue of half-open ones was full.", netstat, "TcpExt.SyncookiesSent"),
		counted("host_tcp_time_wait_overflows_total", "TCP connections closed at once because too many were in time-wait.", netstat, "TcpExt.TCPTimeWaitOverflow"),
	}
	tcpSockets = &metric.Def{Name: "host_tcp_sockets", Unit: metric.Count, Kind: metric.Gauge, Labels: []string{"state"},
		Help: "TCP sockets: in use, orphaned (no program holds them any more) or in time-wait.", Source: sockstat + ", " + sockstat + "6"}
	sockets = &metric.Def{Name: "host_sockets_used", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Sockets of all kinds.", Source: sockstat + " sockets.used"}
	tcpMemory = &metric.Def{Name: "host_tcp_memory_bytes", Unit: metric.Bytes, Kind: metric.Gauge,
		Help: "Memory that TCP takes for what waits to be sent or read.", Source: sockstat + " TCP.mem"}
	tcpMemoryLimit = &metric.Def{Name: "host_tcp_memory_limit_bytes", Unit: metric.Bytes, Kind: metric.Gauge,
		Help: "Memory that TCP may take.", Source: "/proc/sys/net/ipv4/tcp_mem third figure"}
	sockFigures = []proc.Figure{
		{Def: tcpSockets, Key: "TCP.inuse", Labels: []string{"in use"}}, {Def: tcpSockets, Key: "TCP.orphan", Labels: []string{"orphaned"}},
		{Def: tcpSockets, Key: "TCP.tw", Labels: []string{"time-wait"}}, {Def: sockets, Key: "sockets.used"},
		{Def: tcpMemory, Key: "TCP.mem", Factor: float64(os.Getpagesize())},
	}
)

var tcpCollector = &metric.Collector{
	Name: "network.tcp", Doc: "TCP and UDP: connections, segments sent again, queues that overflow, sockets and their memory", Of: metric.Host,
	Defs: append(proc.Defs(snmpFigures, netstatFigures, sockFigures), tcpMemoryLimit),
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		v, err := proc.ReadTable(r, snmp)
		if err != nil {
			return err
		}
		v.Give(out, snmp, snmpFigures)
		if v, err = proc.ReadTable(r, netstat); err != nil {
			out.Gap(err.Error(), "", proc.Defs(netstatFigures)...)
		} else {
			v.Give(out, netstat, netstatFigures)
		}
		giveSockets(r, out)
		if b, err := r.ReadFile("/proc/sys/net/ipv4/tcp_mem"); err != nil { // only the first network namespace has it
			out.Gap(err.Error(), "", tcpMemoryLimit)
		} else if f := strings.Fields(string(b)); len(f) == 3 {
			limit := proc.Values{}
			limit.Put("tcp_mem", f[2])
			limit.Give(out, "/proc/sys/net/ipv4", []proc.Figure{{Def: tcpMemoryLimit, Key: "tcp_mem", Factor: float64(os.Getpagesize())}})
		}
		return nil
	},
}

func giveSockets(r host.Reader, out *metric.Out) {
	v, err := proc.ReadSockets(r, sockstat)
	if err != nil {
		out.Gap(err.Error(), "", proc.Defs(sockFigures)...)
		return
	}
	all := maps.Clone(v)
	if six, err := proc.ReadSockets(r, sockstat+"6"); err == nil { // not there where IPv6 is switched off
		all["TCP.inuse"] += six["TCP6.inuse"]
	}
	all.Give(out, sockstat, sockFigures)
}
