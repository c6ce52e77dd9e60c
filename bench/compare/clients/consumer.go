// amqp091-go as a consumer:
//
//	consumer HOST PORT QUEUE PREFETCH MESSAGES each|64 BODY
//
// The figures are taken by the rule of figures.h.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func check(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "consumer.go: %s: %v\n", what, err)
		os.Exit(1)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err, text)
	return n
}

func cpu() (float64, int64) {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used), "getrusage")
	return float64(used.Utime.Sec+used.Stime.Sec) + float64(used.Utime.Usec+used.Stime.Usec)*1e-6, used.Maxrss
}

func main() {
	if len(os.Args) != 8 {
		fmt.Fprintln(os.Stderr, "consumer HOST PORT QUEUE PREFETCH MESSAGES each|64 BODY")
		os.Exit(2)
	}
	prefetch, messages, body := number(os.Args[4]), number(os.Args[5]), number(os.Args[7])
	every := 1
	if os.Args[6] != "each" {
		every = number(os.Args[6])
	}
	connection, err := amqp.Dial(fmt.Sprintf("amqp://guest:guest@%s:%s/", os.Args[1], os.Args[2]))
	check(err, "connect")
	channel, err := connection.Channel()
	check(err, "channel.open")
	check(channel.Qos(prefetch, 0, false), "basic.qos")
	deliveries, err := channel.Consume(os.Args[3], "", false, false, false, false, nil)
	check(err, "basic.consume")

	first := messages / 10
	began, beganCPU := time.Now(), 0.0
	if first == 0 {
		beganCPU, _ = cpu()
	}
	seen, unsettled, bytes := 0, 0, 0
	for d := range deliveries {
		bytes += len(d.Body)
		seen++
		unsettled++
		if unsettled == every || seen == messages {
			check(d.Ack(every != 1), "ack")
			unsettled = 0
		}
		if seen == first {
			began = time.Now()
			beganCPU, _ = cpu()
		}
		if seen == messages {
			break
		}
	}
	seconds := time.Since(began).Seconds()
	used, rss := cpu()
	if seen != messages || bytes != messages*body {
		check(fmt.Errorf("%d messages, %d bytes", seen, bytes), "received")
	}
	check(connection.Close(), "connection.close")
	measured := float64(messages - first)
	fmt.Printf("{\"client\": \"amqp091-go %s\", \"messages\": %.0f, \"seconds\": %.6f, \"rate\": %.1f, \"cpu_us\": %.5f, \"rss_kib\": %d}\n",
		os.Args[6], measured, seconds, measured/seconds, (used-beganCPU)*1e6/measured, rss)
}
