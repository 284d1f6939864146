package main

import "github.com/twmb/franz-go/pkg/kmsg"

// AlterReplicaLogDirs at each version: there and back, of topics that are not there, to a directory that is not there, and of nothing.
func logDirs(first, second string) {
	for version := int16(1); version <= 2; version++ {
		cl := client(34, version)
		for _, path := range []string{first, second, "/nowhere", ""} {
			request := kmsg.NewPtrAlterReplicaLogDirsRequest()
			if path != "" {
				dir := kmsg.NewAlterReplicaLogDirsRequestDir()
				dir.Dir = path
				dir.Topics = []kmsg.AlterReplicaLogDirsRequestDirTopic{
					{Topic: "golden", Partitions: []int32{0, 1}}, {Topic: "none", Partitions: []int32{0}},
				}
				request.Dirs = append(request.Dirs, dir)
			}
			ask(cl, request)
		}
		cl.Close()
	}
}
