"""The command of the container image, `minibroker container`: `minibroker serve` with the image's conventions.

settings     the image's defaults for listeners and directories
new_topics   topics to create: KAFKA_CREATE_TOPICS and the folder of seed data
new_schemas  registers the schemas of a folder
preparing    creates all of these before clients can connect, and starts over after an interruption
command      the command, which ends in `serve`
"""
