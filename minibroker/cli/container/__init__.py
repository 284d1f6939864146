"""What the container image runs, `minibroker container`: the image's conventions around `minibroker serve`.

settings        what an image promises of listeners and directories, where nobody says anything else
wanted_topics   KAFKA_CREATE_TOPICS and the folder of seed data, as topics to make
preparing       they are made before anybody can connect, and again from the beginning when that was interrupted
command         the command, which ends in `serve`
"""
